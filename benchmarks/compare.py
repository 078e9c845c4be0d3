"""Architectures and parts side by side on one's own file: `headway compare`, its table and pictures, kept.

    python benchmarks/compare.py reviews DATA --pretrained MODEL    classifiers, a pretrained encoder among them
    python benchmarks/compare.py equal DATA --pretrained MODEL      the same encoder and baselines of its parameters
    python benchmarks/compare.py text DATA                          language models
    python benchmarks/compare.py text-seeds DATA                    the same, each with three seeds
    python benchmarks/compare.py positions DATA                     parts of a language model; also ffn, norm, heads
    python benchmarks/compare.py recall                             how far back they remember

All models of a comparison have one optimizer and precision; --own trains each as its own preset says, and is kept as
compare-NAME-own.json.

DATA is a folder with shakespeare.txt and reviews/airline-{train,test}.csv.  Writes benchmarks/results/compare-NAME.json
and docs/pictures/compare-NAME-*.svg (without --own).  With --out a comparison that was stopped is gone on with.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from machine import PICTURES, RESULTS, facts, headway, write

PARTS = ("ffn", "norm", "positions", "heads")
DRAWN = {
    "reviews": ("quality",),
    "equal": ("quality",),
    "text": ("curves", "longer", "lengths"),
    "positions": ("quality", "longer"),
    "recall": ("recall",),
}
"""The pictures that the docs show."""
TIMES = {"reviews": "5m", "equal": "5m", "text": "3m", "text-seeds": "9m", "recall": "5m", **dict.fromkeys(PARTS, "3m")}
"""For each model, trials and seeds included."""


def words(name: str, data: Path, pretrained: str) -> list[str]:
    """What `headway compare` is told."""
    text, rows = str(data / "shakespeare.txt"), data / "reviews"
    reviews = [str(rows / "airline-train.csv"), "--test", str(rows / "airline-test.csv")]
    if name == "reviews":
        return [*reviews, "--models", f"{pretrained},transformer,lstm,gru,rnn,cnn,bow"]
    if name == "equal":
        return [*reviews, "--models", f"{pretrained},lstm,gru", "--match", "parameters"]
    if name == "recall":
        return ["--recall", "--models", "transformer,lstm,rnn"]
    return [text, "--vary", name] if name in PARTS else [text, "--models", "transformer,lstm,gru,rnn"]


def main() -> None:
    """Run the verb and keep what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=TIMES)
    parser.add_argument("data", type=Path, nargs="?", default=Path())
    parser.add_argument("--pretrained", default="")
    parser.add_argument("--time")
    parser.add_argument("--trials", default="1")
    parser.add_argument("--seeds")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    given = parser.parse_args()
    if given.name in ("reviews", "equal") and not given.pretrained:
        parser.error("--pretrained: name the directory of a pretrained encoder")
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder) / "compared"
        seeds = given.seeds or ("3" if given.name == "text-seeds" else "1")
        more = ["--time", given.time or TIMES[given.name], "--trials", given.trials, "--seeds", seeds]
        more += ["--optimizer", "auto", "--precision", "auto"] if given.own else []
        found = headway("compare", *words(given.name, given.data, given.pretrained), *more, "--out", str(out))
        for drawn in () if given.own else DRAWN.get(given.name, ()):
            shutil.copyfile(out / f"{drawn}.svg", given.pictures / f"compare-{given.name}-{drawn}.svg")
    kept = {key: value for key, value in found.items() if key not in ("out", "measured_on", "rows")}
    name = f"compare-{given.name}{'-own' * given.own}"
    write(name, {**facts(), **kept, "rows": [short(row) for row in found["rows"]]}, given.results)
    print(*found["advice"], sep="\n")


def short(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what the pictures show better."""
    return {key: value for key, value in row.items() if key not in ("curves", "run")}


if __name__ == "__main__":
    main()
