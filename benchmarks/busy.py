"""A busy machine: runs end within their time, and the same steps give the same run: benchmarks/results/busy.json.

    python benchmarks/busy.py DATA MODEL [--times 30s,60s,2m] [--runs 5] [--equal 8] [--kinds text,rows] [--together 1]

Beside four processes that never rest, each kind of run is trained --runs times for each of --times, and --equal times
by steps; with --together 3, three kinds at once, beside three such processes, so that each run has four or more.
A run by time must end within its time and 5 % or 3 s, whichever is more, in all but one of a hundred; runs by steps
must have the same weights and the same loss.  MODEL is a pretrained encoder.  The exit status is 1 unless all holds.
"""

import argparse
import contextlib
import csv
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import answers
from machine import RESULTS, facts, headway, write

from headway.io.quantities import parse_seconds

BESIDE = 4
"""Processes that are busy beside a run."""
STEPS = "30"
LATE, LATE_SECONDS, MOST_LATE = 0.05, 3.0, 0.01


def kinds(data: Path, model: str, folder: Path) -> dict[str, tuple[str, ...]]:
    """What ``train`` is told for each kind of run."""
    made = {}
    for name, job in answers.TASKS.items():
        (folder / name).mkdir()
        made[name] = job(data, folder / name, 50)
    with made["classification"].train.open(encoding="utf-8", newline="") as file:
        few = answers.table(folder / "few.csv", ("text", "label"), list(csv.reader(file))[1:100])
    talk = folder / "talk.jsonl"
    turns = [
        [{"role": "user", "content": one}, {"role": "assistant", "content": other}]
        for one, other in answers.captions(data, "train", 2000)
    ]
    talk.write_text("".join(json.dumps({"messages": both}) + "\n" for both in turns))
    text, rows = str(data / "shakespeare.txt"), str(made["classification"].train)
    return {
        "text": (text,),
        "masked": (text, "--task", "masked_lm"),
        "talk": (str(talk),),
        "rows": (rows,),
        "rows from a model": (rows, "--from", model),
        "few rows from a model": (str(few), "--from", model),
        "images": (str(made["image_classification"].train),),
        "translation": (str(made["translation"].train), "--task", "translation"),
        "embedding": (str(made["embedding"].train), "--task", "embedding"),
        "embedding from a model": (str(made["embedding"].train), "--task", "embedding", "--from", model),
        "tags": (str(made["token_classification"].train),),
    }


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many other processes that compute all the time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(10**6))"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()


def trained(words: tuple[str, ...], *bound: str) -> dict[str, Any]:
    """What a run gave, and the digest of its weights."""
    with tempfile.TemporaryDirectory(prefix="headway-busy-") as name:
        out = Path(name) / "run"
        found = headway("train", *words, *bound, "--out", str(out))
        return {**found, "weights": hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()}


def measured(
    kind: str, words: tuple[str, ...], times: list[str], runs: int, equal: int, together: int
) -> tuple[str, dict[str, Any]]:
    """The kind, and its runs: seconds by time, how many were late, and how many results there were by steps."""
    timed = []
    for limit in times:
        seconds = parse_seconds(limit)
        walls = [trained(words, "--time", limit)["wall"] for _ in range(runs)]
        late = sum(wall > seconds + max(LATE * seconds, LATE_SECONDS) for wall in walls)
        timed.append({"time": limit, "seconds": walls, "late": late})
        print(kind, json.dumps(timed[-1]), flush=True)
    results = {
        (run["weights"], run.get("val_loss")) for run in (trained(words, "--steps", STEPS) for _ in range(equal))
    }
    print(f"{kind}: {equal} runs by steps, {len(results)} results: {sorted(map(str, results))}", flush=True)
    return kind, {**facts(), "together": together, "timed": timed, "equal": {"runs": equal, "results": len(results)}}


def main() -> None:
    """Every kind of run, and the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("model")
    parser.add_argument("--times", default="30s,60s,2m")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--equal", type=int, default=8)
    parser.add_argument("--kinds", default="", help="those that are measured; the others in the file stay")
    parser.add_argument("--together", type=int, default=1, help="kinds that are measured at once")
    given = parser.parse_args()
    file = RESULTS / "busy.json"
    found = json.loads(file.read_text())["kinds"] if given.kinds and file.exists() else {}
    with tempfile.TemporaryDirectory(prefix="headway-busy-") as name, busy(BESIDE - (given.together > 1)):
        there = kinds(given.data, given.model, Path(name))
        names = given.kinds.split(",") if given.kinds else list(there)
        how = (given.times.split(","), given.runs, given.equal, given.together)
        pool = futures.ThreadPoolExecutor(given.together)
        for job in futures.as_completed(pool.submit(measured, one, there[one], *how) for one in names):
            kind, found[kind] = job.result()
            timed = [row for one in found.values() for row in one["timed"]]
            late, count = sum(row["late"] for row in timed), sum(len(row["seconds"]) for row in timed)
            write("busy", {"beside": BESIDE, "late": late, "of": count, "kinds": found})
    sys.exit(late > MOST_LATE * count or any(one["equal"]["results"] > 1 for one in found.values()))


if __name__ == "__main__":
    main()
