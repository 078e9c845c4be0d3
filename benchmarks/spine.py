"""What a user gets from one command in two minutes: a language model, and classifiers by seed.

    python benchmarks/spine.py DATA language
    python benchmarks/spine.py DATA classify

DATA is a folder with shakespeare.txt, sst2/{train,test}.csv and reviews/customer-{train,test}.csv.  Every figure comes
from the command line in a process of its own; test files are read by `headway evaluate` alone.
"""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import facts, headway, spread, write

RUNS = 3


def language(data: Path, folder: Path) -> dict[str, Any]:
    """Character model of tiny Shakespeare in 110 s, its evaluation in a new process, by seed."""
    runs = []
    for seed in range(RUNS):
        out = str(folder / f"language-{seed}")
        text = str(data / "shakespeare.txt")
        words = ("train", text, "--tokenizer", "char", "--time", "110s", "--seed", str(seed), "--out", out)
        trained = headway(*words)
        again = headway("evaluate", out, text)
        keys = ("val_loss", "bits_per_byte", "parameters", "steps", "tokens", "tokens_per_second", "wall", "baselines")
        runs.append({"seed": seed, **{key: trained[key] for key in keys}, "evaluate_val_loss": again["val_loss"]})
        print(runs[-1], flush=True)
    return {
        "task": "tiny Shakespeare, characters, headway train --tokenizer char --time 110s",
        "val_loss": spread([run["val_loss"] for run in runs]),
        "wall_seconds": spread([run["wall"] for run in runs]),
        "runs": runs,
    }


def classify(data: Path, folder: Path) -> dict[str, Any]:
    """Classifiers from scratch in two minutes, measured on test files, by seed."""
    found: dict[str, Any] = {"task": "headway train FILE --time 2m, accuracy on the test file by headway evaluate"}
    for name in ("reviews/customer", "sst2/"):
        runs = []
        for seed in range(RUNS):
            out = str(folder / f"{name.replace('/', '-')}{seed}")
            train, test = (
                str(data / f"{name}{'-' if name[-1] != '/' else ''}{part}.csv") for part in ("train", "test")
            )
            trained = headway("train", train, "--time", "2m", "--seed", str(seed), "--out", out)
            tested = headway("evaluate", out, test)
            run = {key: tested[key] for key in ("accuracy", "macro_f1", "val_loss", "examples")}
            keys = ("parameters", "steps", "wall", "baselines")
            runs.append(
                {"seed": seed, **run, "validation_accuracy": trained["accuracy"], **{k: trained[k] for k in keys}}
            )
            print(name, runs[-1], flush=True)
        found[name.strip("/")] = {
            "mean_accuracy": statistics.mean(run["accuracy"] for run in runs),
            "mean_macro_f1": statistics.mean(run["macro_f1"] for run in runs),
            "runs": runs,
        }
    return found


def main() -> None:
    data, part = Path(sys.argv[1]), sys.argv[2]
    folder = Path(tempfile.mkdtemp())
    try:
        found = {"language": language, "classify": classify}[part](data, folder)
    finally:
        shutil.rmtree(folder)
    write(f"spine-{part}", {**facts(), **found})


if __name__ == "__main__":
    main()
