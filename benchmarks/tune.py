"""Whether `headway tune` finds options that are better than the preset's, on text that chose nothing.

    python benchmarks/tune.py DATA
    python benchmarks/tune.py DATA --time 2m --trials 6 --results FOLDER

DATA is a folder with trec/{train,test}.csv.  `headway tune` searches on the training file alone, for 20 minutes; then
its best options and the preset are each trained anew with the seeds 0, 1 and 2, with the time of a trial, and measured
on the test file.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from machine import RESULTS, facts, headway, write

SEEDS = (0, 1, 2)
KEYS = ("accuracy", "macro_f1", "val_loss", "examples")


def words(options: dict[str, Any]) -> list[str]:
    """Options as words of a command line."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def trained(train: Path, test: Path, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """What these options reach on the test file, by seed."""
    runs = []
    for seed in SEEDS:
        out = str(folder / str(seed))
        run = headway("train", str(train), "--seed", str(seed), "--out", out, *words(options))
        tested = headway("evaluate", out, str(test))
        more = {"validation_accuracy": run["accuracy"], "steps": run["steps"], "wall": run["wall"]}
        runs.append({"seed": seed, **{key: tested[key] for key in KEYS}, **more})
        print(options, runs[-1], flush=True)
    accuracies = [run["accuracy"] for run in runs]
    return {"options": options, "accuracy": {"mean": statistics.fmean(accuracies), "values": accuracies}, "runs": runs}


def searched(data: Path, folder: Path, time: str, trials: int) -> dict[str, Any]:
    """The search, then its best options beside the preset."""
    train, test = data / "trec" / "train.csv", data / "trec" / "test.csv"
    out = folder / "tuned"
    found = headway("tune", str(train), "--time", time, "--trials", str(trials), "--out", str(out))
    print(found["best"], found["preset"], flush=True)
    each = {"time": found["options"]["time"]}
    saved = headway("evaluate", str(out), str(test))
    preset = trained(train, test, folder / "preset", each)
    best = trained(train, test, folder / "best", {**each, **found["best"]["options"]})
    keys = ("wall", "seconds", "measure", "best", "preset", "noise", "importance", "trials")
    return {
        "task": f"headway tune trec/train.csv --time {time} --trials {trials}; then both trained with seeds 0, 1, 2",
        "tune": {key: found[key] for key in keys},
        "saved_model": {key: saved[key] for key in KEYS},
        "with_the_preset": preset,
        "with_the_best_options": best,
        "gain": best["accuracy"]["mean"] - preset["accuracy"]["mean"],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--time", default="20m")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        result = searched(given.data, Path(place), given.time, given.trials)
    write("tune", {**facts(), **result}, given.results)
