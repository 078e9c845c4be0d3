"""Rows per second by workers of Spark and Ray beside one process, and a worker's memory after many rows.

    python benchmarks/integrations.py MODEL DATA [--rows 20000] [--runs 3]

MODEL is an encoder (all-MiniLM-L6-v2), DATA the folder of data sets: the texts are those of the airline tweets, as
often as it takes.  Beside it a model of the preset tiny.  One process answers with two threads, Spark with
``local[2]`` and eight partitions, Ray with two actors of one processor.  What is measured is the steady state, after
every worker has loaded the model; the start stands apart.  The memory is that of Spark's workers by the tiny model
after 20,000 and after 200,000 rows each.  It needs the environment of ``make integrations``.
"""

import argparse
import csv
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas
from machine import facts, installed, spread, write

import headway
from headway.integrations.ray import answered as answered_by_ray
from headway.integrations.spark import answered as answered_by_spark

PLACE = Path("build/integrations-runs")
PARTITIONS = 8
LATER = 10
"""How many times as many rows a worker has answered when its memory is measured again."""


def texts_of(data: Path) -> list[tuple[str, str]]:
    """Texts and labels of the airline tweets."""
    with (data / "reviews" / "airline-train.csv").open(newline="", encoding="utf-8") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def trained(name: str, rows: list[tuple[str, str]], **options: Any) -> Path:
    """A classifier of the tweets, made once."""
    place = PLACE / name
    if not (place / "model.safetensors").exists():
        data = [{"text": text, "label": label} for text, label in rows[:2000]]
        headway.train(data, out=place, steps=20, quiet=True, **options)
    return place


def plain(run: Path, texts: list[str], runs: int) -> dict[str, Any]:
    """One process with two threads."""
    began = time.perf_counter()
    pipe = headway.load(run)
    pipe(texts[:500])
    start, rates = time.perf_counter() - began, []
    for _ in range(runs):
        began = time.perf_counter()
        pipe(texts)
        rates.append(len(texts) / (time.perf_counter() - began))
    return {"start_seconds": start, "rows_a_second": spread(rates)}


def spark(run: Path, texts: list[str], runs: int) -> dict[str, Any]:
    """Two workers; every row of the answers is made, and none is kept."""
    session, began = session_of(), time.perf_counter()
    frame = session.createDataFrame([(text,) for text in texts], "text string").repartition(PARTITIONS).cache()
    frame.count()
    answer = headway.Batch(run)

    def answer_all(data: Any) -> None:
        answered_by_spark(data, answer).write.format("noop").mode("overwrite").save()

    answer_all(frame.limit(200).repartition(2 * PARTITIONS))
    start, rates = time.perf_counter() - began, []
    for _ in range(runs):
        began = time.perf_counter()
        answer_all(frame)
        rates.append(len(texts) / (time.perf_counter() - began))
    return {"start_seconds": start, "rows_a_second": spread(rates)}


def session_of() -> Any:
    """Spark in this machine with two workers."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "3g"}
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def ray(run: Path, texts: list[str], runs: int) -> dict[str, Any]:
    """Two actors: the rows that come after both have given some, and how long they took."""
    import ray.data

    ray.init(num_cpus=3, include_dashboard=False, logging_level="ERROR", log_to_driver=False, ignore_reinit_error=True)
    size = -(-len(texts) // (4 * PARTITIONS))
    parts = [pandas.DataFrame({"text": texts[at : at + size]}) for at in range(0, len(texts), size)]
    starts, rates = [], []
    for _ in range(runs):
        began = time.perf_counter()
        data = answered_by_ray(ray.data.from_pandas(parts), headway.Batch(run), actors=2)
        came = [(time.perf_counter(), len(batch["text"])) for batch in data.iter_batches(batch_size=None)]
        first = next(at for at in range(4, len(came)) if came[at][0] > came[3][0])
        starts.append(came[first][0] - began)
        rates.append(sum(count for _, count in came[first + 1 :]) / (came[-1][0] - came[first][0]))
    return {"start_seconds": statistics.median(starts), "rows_a_second": spread(rates)}


def memory(run: Path, texts: list[str]) -> dict[str, Any]:
    """The resident bytes of Spark's workers after so many rows each, and after ``LATER`` times as many."""
    count, rows = len(texts), texts * (2 * LATER + 2)
    session, answer = session_of(), headway.Batch(run)
    frame = session.createDataFrame([(text,) for text in rows], "text string").repartition(2)

    def told(parts: Iterator[Any]) -> Iterator[Any]:
        done = 0
        for part in parts:
            done += len(answer(part))
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            yield pandas.DataFrame({"worker": [os.getpid()], "rows": [done], "bytes": [resident]})

    found = frame.mapInPandas(told, "worker long, rows long, bytes long").toPandas()
    workers = []
    for _, one in found.groupby("worker"):
        early = one[one.rows >= count].sort_values("rows").iloc[0]
        late = one[one.rows >= LATER * count].sort_values("rows").iloc[0]
        workers.append({"rows": [int(early.rows), int(late.rows)], "bytes": [int(early.bytes), int(late.bytes)]})
    return {"workers": workers, "ratio": max(one["bytes"][1] / one["bytes"][0] for one in workers)}


def main() -> None:
    """All ways in turns of one after the other, for both models."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    labelled = texts_of(given.data)
    texts = [text for text, _ in labelled * (1 + given.rows // len(labelled))][: given.rows]
    models = {
        "minilm": trained("minilm", labelled, from_model=str(given.model)),
        "tiny": trained("tiny", labelled, preset="tiny"),
    }
    ways: list[Callable[[Path, list[str], int], dict[str, Any]]] = [plain, spark, ray]
    found: dict[str, Any] = {}
    for name, run in models.items():
        found[name] = {way.__name__: way(run, texts, given.runs) for way in ways}
        usual = found[name]["plain"]["rows_a_second"]["median"]
        for way in ("spark", "ray"):
            found[name][way]["of_plain"] = found[name][way]["rows_a_second"]["median"] / usual
        print(name, {way: (one["rows_a_second"]["median"], one.get("of_plain")) for way, one in found[name].items()})
    found["memory"] = memory(models["tiny"], texts)
    print(found["memory"])
    engines = installed(("pyspark", "ray", "pandas", "pyarrow"))
    write("integrations", {**facts(), "engines": engines, "rows": given.rows, **found})


if __name__ == "__main__":
    main()
