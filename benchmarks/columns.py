"""Several columns by one model, beside a model for each: quality on test rows, and the time of training and answering.

    python benchmarks/columns.py MODEL [--seeds 5] [--epochs 2] [--kept build/columns]

Made-up tickets: words say the queue (a class), the urgency (1 to 5), the tags (several labels) and the price (a
number); each is wrong in 10 % of the rows.  2,000 rows are trained on, 400 are held out and 2,000 are the test.  For
each seed the model of all columns and one for each column start from the same encoder and read the same rows as many
times; the order in which they train turns from seed to seed, and they answer in turns.  What is compared is each
column's metric in points (accuracy, quadratic kappa, micro F1 and Spearman's correlation times 100), and the time of
the model of all columns over the median of the models of one.  Stopped, it goes on with the next seed.
"""

import argparse
import csv
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from beside_trainer import once
from machine import facts, headway, spread, write
from scipy.stats import t as student

import headway as library

METRICS = {"queue": "accuracy", "urgency": "quadratic_kappa", "tags": "micro_f1", "price": "spearman"}
QUEUES = {"billing": ["invoice", "charge"], "tech": ["crash", "login"], "sales": ["quote", "licence"]}
LEVELS = {1: ["whenever"], 2: ["soon"], 3: ["please"], 4: ["hurry"], 5: ["emergency"]}
TAGS = {"vip": "gold", "late": "overdue", "again": "repeated"}
OTHERS = ("the", "my", "order", "was", "to", "old", "and", "we", "had", "no", "idea", "when", "it", "would", "our")
ROWS = {"train": 2000, "held": 400, "test": 2000}
NOISE = 0.1
TURNS = 5
"""How often each model answers all test rows."""


def tickets(path: Path, count: int, seed: int) -> Path:
    """Tickets of which the words say every column; with a probability of NOISE a cell says another thing."""
    draw = random.Random(seed)

    def said(right: Any, others: list[Any]) -> Any:
        return draw.choice(others) if draw.random() < NOISE else right

    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", *METRICS])
        for number in range(count):
            queue, level = draw.choice(list(QUEUES)), draw.randint(1, 5)
            tags = [tag for tag in TAGS if draw.random() < 0.4]
            words = [draw.choice(QUEUES[queue]), draw.choice(LEVELS[level]), *(TAGS[tag] for tag in tags)]
            words += [*draw.choices(OTHERS, k=8), str(seed), str(number)]
            draw.shuffle(words)
            price = 50.0 * level + 30 * list(QUEUES).index(queue) + draw.gauss(0, 10)
            row = [said(queue, list(QUEUES)), said(level, list(LEVELS)), said(";".join(tags) or "none", list(TAGS))]
            writer.writerow([" ".join(words), *row, f"{said(price, [draw.uniform(50, 310)]):.2f}"])
    return path


def trained(
    model: str, files: dict[str, Path], columns: list[str], seed: int, epochs: int, out: Path
) -> dict[str, Any]:
    """A run, measured on the test rows: the points of each column, the seconds of training, and its pipeline."""
    labels = [word for name in columns for word in ("--label-column", name)]
    task = {"queue": "classification", "urgency": "ratings", "tags": "multi_label", "price": "regression"}
    named = ["--task", "multi_column" if len(columns) > 1 else task[columns[0]]]
    words = ("train", files["train"], "--validation", files["held"], "--from", model, *labels, *named)
    sizes = ("--batch-size", 16, "--seed", seed, "--epochs", epochs, "--precision", "float32", "--evaluations", epochs)
    headway(*map(str, (*words, *sizes, "--text-column", "text", "--out", out)))
    measured: Any = library.evaluate(out, files["test"])
    scores = measured.get("columns") or {columns[0]: measured}
    points = {name: 100 * scores[name][METRICS[name]] for name in columns}
    told = json.loads((out / "headway.json").read_text())
    return {"points": points, "train": told["training_seconds"], "pipe": library.load(out)}


def answering(pipes: dict[Any, Any], texts: list[str]) -> dict[Any, float]:
    """The median of the seconds in which each pipeline answers the texts, in turns."""
    seconds: dict[Any, list[float]] = {name: [] for name in pipes}
    for turn in range(TURNS + 1):
        for name, pipe in pipes.items():
            began = time.perf_counter()
            pipe(texts)
            seconds[name] += [time.perf_counter() - began] if turn else []  # the first one is not counted
    return {name: statistics.median(of) for name, of in seconds.items()}


def one_seed(model: str, seed: int, epochs: int) -> dict[str, Any]:
    """All columns together and each alone: points of each, and the times over the median of one column."""
    groups = [list(METRICS), *([name] for name in METRICS)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        files = {
            name: tickets(place / f"{name}.csv", count, 100 * seed + at)
            for at, (name, count) in enumerate(ROWS.items())
        }
        turned = groups[seed % len(groups) :] + groups[: seed % len(groups)]
        runs = {tuple(names): trained(model, files, names, seed, epochs, place / "-".join(names)) for names in turned}
        texts = [row["text"] for row in csv.DictReader(files["test"].open(newline=""))]
        answered = answering({names: run["pipe"] for names, run in runs.items()}, texts)
    whole, one = tuple(METRICS), [(name,) for name in METRICS]
    train = {names: run["train"] for names, run in runs.items()}
    return {
        "together": runs[whole]["points"],
        "alone": {name: runs[(name,)]["points"][name] for name in METRICS},
        "ratios": {
            key: of[whole] / statistics.median(of[names] for names in one)
            for key, of in (("train", train), ("answer", answered))
        },
    }


def compared(model: str, seeds: int, epochs: int, kept: Path) -> dict[str, Any]:
    """All columns together and each alone, seed by seed."""
    found = []
    for seed in range(seeds):
        found.append(once(kept / f"{epochs}-{seed}.json", lambda: one_seed(model, seed, epochs)))  # noqa: B023
        print(seed, found[-1], flush=True)
    together, alone = ({name: [one[side][name] for one in found] for name in METRICS} for side in ("together", "alone"))
    ratios = {key: [one["ratios"][key] for one in found] for key in ("train", "answer")}
    differences = {}
    for name in METRICS:
        points = np.array(together[name]) - np.array(alone[name])
        half = float(student.ppf(0.995, seeds - 1) * points.std(ddof=1) / np.sqrt(seeds))
        mean = float(points.mean())
        differences[name] = {"mean": mean, "interval_99": [mean - half, mean + half], "runs": points.tolist()}
    return {
        "metrics": METRICS,
        "together": {name: spread(values) for name, values in together.items()},
        "alone": {name: spread(values) for name, values in alone.items()},
        "difference_in_points": differences,
        "time_over_one_column": {key: spread(values) for key, values in ratios.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=Path("build/columns"))
    given = parser.parse_args()
    result = compared(given.model, given.seeds, given.epochs, given.kept)
    write("columns", {**facts(), "rows": ROWS, "noise": NOISE, "epochs": given.epochs, "seeds": given.seeds, **result})
