"""Numbers and ratings: Headway beside the Trainer of transformers, on the same rows, order and start.

    python benchmarks/numbers_and_ratings.py MODEL [--seeds 5] [--epochs 3] [--kept build/numbers]

Made up, with known noise.  Prices: the words of an offer say its price, times a factor of log-normal noise (0.15).
Ratings: words say a level from 1 to 5, and one row in five has the level beside it.  2,000 rows are trained on, 400 are
held out, 2,000 are the test.  For each seed both programs begin with the same head, read the same batches in the same
order, and keep the weights of the epoch with the least loss on the held-out rows.  The Trainer is set up as its users
do: numbers standardised, levels as classes, AdamW at 5e-5 with linear decay.

What is compared on the test rows is Spearman's correlation of numbers and quadratic kappa of ratings, times 100: the
mean of the paired differences with Student's 99 % interval over seeds.  The best possible (the right number or level
without its noise) and the baselines of Headway's run stand beside them.  Stopped, it goes on with the next seed.
"""

import argparse
import csv
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from beside_trainer import BATCH, LIMIT, difference, once, ours, start, trainer
from machine import facts, installed, spread, write

from headway.training.evaluation.intervals import quadratic_kappa, spearman

SIZES = {"train": 2000, "held": 400, "test": 2000}
ITEMS = {"table": 120.0, "chair": 40.0, "lamp": 25.0, "sofa": 600.0, "bed": 450.0, "desk": 180.0, "shelf": 80.0}
STATES = {"oak": 1.6, "plastic": 0.5, "used": 0.6, "large": 1.4, "signed": 2.5, "scratched": 0.8}
LEVELS = {
    **{1: ("useless", "a disgrace"), 2: ("poor", "disappointing"), 3: ("average", "so so")},
    **{4: ("good", "pleasant"), 5: ("superb", "a delight")},
}
OTHERS = ("the", "my", "order", "came", "to", "old", "and", "we", "had", "no", "idea", "when", "it", "would", "our")
TASKS = {"regression": ("price", "spearman"), "ratings": ("stars", "quadratic_kappa")}
Rows = list[tuple[str, float, float]]
"""A text, its value, and the value without noise."""


def made_up(task: str) -> dict[str, Rows]:
    draw = random.Random(task)

    def row(number: int) -> tuple[str, float, float]:
        if task == "regression":
            item, states = draw.choice(list(ITEMS)), draw.sample(list(STATES), draw.randint(0, 3))
            right = ITEMS[item] * float(np.prod([STATES[state] for state in states]))
            words, value = [*states, item], round(right * draw.lognormvariate(0, 0.15), 2)
        else:
            right = draw.randint(1, 5)
            words = [draw.choice(LEVELS[right])]
            beside = draw.random() < 0.2
            value = min(5, max(1, right + draw.choice((-1, 1)))) if beside else right
        return f"{' '.join(draw.choices(OTHERS, k=6))} {' '.join(words)} {number}", float(value), float(right)

    return {name: [row(number) for number in range(size)] for name, size in SIZES.items()}


def score(task: str, wanted: np.ndarray, found: np.ndarray) -> float:
    """Spearman's correlation of numbers; quadratic kappa of levels from 1 to 5."""
    if task == "regression":
        return float(spearman(found, wanted))
    levels = [1.0, 2.0, 3.0, 4.0, 5.0]
    return float(quadratic_kappa(wanted.astype(int) - 1, found.astype(int) - 1, levels) or 0.0)


def one_seed(task: str, model: str, parts: dict[str, Rows], seed: int, epochs: int) -> dict[str, Any]:
    """The scores of both programs, and the baselines of Headway's run."""
    began, column = time.perf_counter(), TASKS[task][0]
    texts = {name: [text for text, _, _ in rows] for name, rows in parts.items()}
    values = {name: np.array([value for _, value, _ in rows]) for name, rows in parts.items()}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.csv" for name in ("train", "held")}
        for name, file in files.items():
            with file.open("w", newline="") as opened:
                csv.writer(opened).writerows([("text", column), *((text, value) for text, value, _ in parts[name])])
        out, place = Path(folder) / "run", Path(folder) / "start"
        pipe, batches = ours(model, files, texts["train"], seed, epochs, out, task)
        answers = pipe(texts["test"])
        told = json.loads((out / "headway.json").read_text())["baselines"]
        if task == "regression":
            own = np.array([answer["value"] for answer in answers])
            mean, deviation = values["train"].mean(), values["train"].std()
            targets = {name: ((of - mean) / deviation).astype(np.float32) for name, of in values.items()}
            start(model, seed, place, 1, problem_type="regression")
            theirs = trainer(place, texts, targets, batches, seed)["test"].reshape(-1)
        else:
            own = np.array([float(answer["label"]) for answer in answers])
            targets = {name: of.astype(np.int64) - 1 for name, of in values.items()}
            start(model, seed, place, 5, problem_type="single_label_classification")
            theirs = 1 + trainer(place, texts, targets, batches, seed)["test"].argmax(axis=1)
    found = {name: score(task, values["test"], of) for name, of in (("headway", own), ("trainer", theirs))}
    baselines = {line["name"]: line.get(TASKS[task][1]) for line in told}
    return {**found, "baselines": baselines, "seconds": time.perf_counter() - began}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--kept", type=Path, default=Path("build/numbers"))
    given = parser.parse_args()
    result: dict[str, Any] = {}
    for task, (_, metric) in TASKS.items():
        parts, seeds = made_up(task), []
        for seed in range(given.seeds):
            place = given.kept / f"{task}-{given.epochs}-{seed}.json"
            seeds.append(once(place, lambda: one_seed(task, given.model, parts, seed, given.epochs)))  # noqa: B023
            print(task, seed, seeds[-1], flush=True)
        both = {name: [one[name] for one in seeds] for name in ("headway", "trainer")}
        wanted, right = (np.array([row[at] for row in parts["test"]]) for at in (1, 2))
        result[task] = {
            **{"metric": metric, **{name: spread(of) for name, of in both.items()}},
            **{"difference_in_points": difference(*both.values()), "best_possible": score(task, wanted, right)},
            **{
                "baselines_on_the_held_out_rows": seeds[0]["baselines"],
                "seconds": sum(one["seconds"] for one in seeds),
            },
        }
    sizes = {"rows": SIZES, "epochs": given.epochs, "batch": BATCH, "longest": LIMIT}
    write("numbers-and-ratings", {**facts(), "peers": installed(["transformers", "torch"]), **sizes, **result})
