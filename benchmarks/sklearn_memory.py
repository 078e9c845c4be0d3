"""The memory of a process that fits ``headway.sklearn.TextClassifier`` again and again.

    python benchmarks/sklearn_memory.py MODEL DATA [--runs 3]

MODEL is an encoder (all-MiniLM-L6-v2), DATA the folder of data sets.  Each process fits 20 classifiers to the same
1,000 airline tweets with other seeds, and answers them: of the preset tiny (30 steps), and from MODEL (40 steps, and 3
steps, after which few of the products that are kept prepared are there: the others come with later fits).  The preset
also with the counts of products that torch and oneDNN keep by themselves, beside those that Headway lets them keep
(``nn.kernels.products.KEPT``); in turns.  ``speeds`` are tokens per second of a run of 900 steps of it with both.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import facts, spread, write

import headway
from headway.nn.kernels.products import KEPT

PLAIN = dict.fromkeys(KEPT, "1024")
FITS, EARLY = 20, 3
OWN = "own"


def resident() -> int:
    """The bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fits(model: str, texts: list[str], labels: list[str]) -> list[int]:
    """The memory after each fit."""
    from headway.sklearn import TextClassifier

    how: dict[str, Any] = {"preset": "tiny", "steps": 30}
    if model != "tiny":
        path, _, steps = model.rpartition(":")
        how = {"from_model": path, "steps": int(steps)}
    after = []
    for seed in range(FITS):
        TextClassifier(seed=seed, **how).fit(texts, labels).predict(texts)
        after.append(resident())
    return after


def speed(texts: list[str], labels: list[str]) -> float:
    """Tokens per second of a longer run, on four times the rows."""
    with tempfile.TemporaryDirectory() as folder:
        how: dict[str, Any] = {"preset": "tiny", "steps": 900, "evaluations": 2, "precision": "bfloat16"}
        run = headway.train((texts, labels), out=Path(folder) / "run", quiet=True, **how)
    return float(run["tokens_per_second"])


def asked(given: Any, what: str, counts: str) -> Any:
    """What a new process with these counts finds."""
    words = [sys.executable, __file__, given.model, given.data, "--one", what]
    environment = {**os.environ, **(KEPT if counts == OWN else PLAIN)}
    found = subprocess.run(words, check=True, env=environment, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def main() -> None:
    """All in turns."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        with (Path(given.data) / "reviews" / "airline-train.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))[: 4000 if given.one == "speed" else 1000]
        texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
        print(json.dumps(speed(texts, labels) if given.one == "speed" else fits(given.one, texts, labels)))
        return
    found: dict[str, Any] = {}
    for name, model in (("tiny", "tiny"), *((f"minilm_{steps}_steps", f"{given.model}:{steps}") for steps in (40, 3))):
        found[name] = {}
        for counts in (OWN, "plain") if name == "tiny" else (OWN,):
            after = [asked(given, model, counts) for _ in range(given.runs if name == "tiny" else 1)]
            ratios = [each[FITS - 1] / each[EARLY - 1] for each in after]
            found[name][counts] = {
                "bytes": [[each[EARLY - 1], each[FITS - 1]] for each in after],
                "ratio": spread(ratios),
            }
        print(name, {counts: one["ratio"]["median"] for counts, one in found[name].items()}, flush=True)
    rates: dict[str, list[float]] = {OWN: [], "plain": []}
    for _ in range(2 * given.runs + 1):
        for counts, each in rates.items():
            each.append(asked(given, "speed", counts))
    found["speeds"] = {counts: spread(each) for counts, each in rates.items()}
    pairs = zip(rates[OWN], rates["plain"], strict=True)
    found["speeds"]["own_of_plain"] = spread([own / plain for own, plain in pairs])
    print(found["speeds"])
    write("sklearn_memory", {**facts(), "fits": [EARLY, FITS], "kept": KEPT, "otherwise": PLAIN, **found})


if __name__ == "__main__":
    main()
