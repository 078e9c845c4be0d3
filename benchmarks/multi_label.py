"""Several labels for a text: Headway beside the Trainer of transformers, on the same rows, order and start.

    python benchmarks/multi_label.py MODEL DATA [--seeds 5] [--epochs 3]

Two data sets.  TREC: train and test pooled, equal texts once, 2,000 rows drawn for the test; a question has two labels,
its class and its question word.  Made up: words of four labels among others, each label of a row wrong with a
probability of 5 %.  Of the other rows 400 are held out: both programs keep the weights of the evaluation with the least
loss there, and both have their thresholds chosen there by the same function.

For each seed Headway draws a head, which the Trainer gets too; it reads the same batches in the same order.  Headway
trains as it does by itself (``train --from``), the Trainer by its defaults (AdamW, 5e-5, linear decay), as many epochs.
What is compared is micro F1 on the test rows, at 0.5 and at the thresholds: the mean of the paired differences, in
points, with Student's 99 % interval over seeds.
"""

import argparse
import csv
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from beside_trainer import BATCH, LIMIT, difference, ours, start, trainer
from machine import facts, installed, spread, write

from headway.tasks.label_sets import best_thresholds, set_scores

TEST, HELD_OUT = 2000, 400
WORDS = ("what", "who", "how", "where", "when", "which", "why", "name")
SIGNS = {"delay": "late", "cancel": "cancelled", "luggage": "bag", "food": "meal"}
OTHERS = ("the", "flight", "was", "to", "big", "old", "town", "and", "we", "had", "no", "idea", "when", "it", "would")
Rows = list[tuple[str, list[str]]]


def trec(data: Path) -> Rows:
    """Questions with their class and their question word."""
    found: dict[str, list[str]] = {}
    for name in ("train", "test"):
        with (data / "trec" / f"{name}.csv").open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                first = row["text"].split()[0].lower()
                found.setdefault(row["text"], [row["label"], f"word: {first if first in WORDS else 'other'}"])
    return list(found.items())


def made_up(count: int = 5000) -> Rows:
    """Texts whose words say which labels they have; 5 % of the labels are wrong."""
    draw, rows = random.Random(0), []
    for number in range(count):
        has = {label: draw.random() < 0.35 for label in SIGNS}
        words = [SIGNS[label] for label in SIGNS if has[label]]
        words += draw.choices(OTHERS, k=8)
        draw.shuffle(words)
        said = [label for label in SIGNS if has[label] != (draw.random() < 0.05)]
        rows.append((f"{' '.join(words)} {number}", said))
    return rows


def matrix(rows: Rows, labels: list[str]) -> np.ndarray:
    """0 or 1 for each row and label, int64 (N, C)."""
    return np.array([[label in has for label in labels] for _, has in rows], dtype=np.int64)


def measured(scores: list[np.ndarray], parts: dict[str, Rows], labels: list[str]) -> dict[str, float]:
    """Micro F1 on the test rows, at 0.5 and at the thresholds that the held-out rows choose."""
    wanted = matrix(parts["test"], labels)
    chosen = best_thresholds(scores[0], matrix(parts["held"], labels))
    bounds = {"at_half": 0.5, "at_thresholds": chosen}
    return {name: set_scores(wanted, scores[1], scores[1] >= at, labels)["micro_f1"] for name, at in bounds.items()}


def compared(model: str, rows: Rows, seeds: int, epochs: int) -> dict[str, Any]:
    """Both programs on one data set, seed by seed."""
    random.Random(1).shuffle(rows)
    parts = {"test": rows[:TEST], "held": rows[TEST : TEST + HELD_OUT], "train": rows[TEST + HELD_OUT :]}
    found: dict[str, dict[str, list[float]]] = {"headway": {}, "trainer": {}}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.jsonl" for name in ("train", "held")}
        for name, file in files.items():
            lines = (json.dumps({"text": text, "labels": has}) for text, has in parts[name])
            file.write_text("".join(f"{line}\n" for line in lines))
        for seed in range(seeds):
            place, texts = Path(folder) / f"start-{seed}", {name: [one for one, _ in parts[name]] for name in parts}
            pipe, batches = ours(
                model, files, texts["train"], seed, epochs, Path(folder) / f"run-{seed}", "multi_label"
            )
            labels = pipe.labels
            start(model, seed, place, len(labels), problem_type="multi_label_classification")
            targets = {name: matrix(of, labels).astype(np.float32) for name, of in parts.items()}
            logits = trainer(place, texts, targets, batches, seed)
            both = {
                "headway": [pipe.probabilities(texts[name]).numpy() for name in ("held", "test")],
                "trainer": [1 / (1 + np.exp(-logits[name])) for name in ("held", "test")],
            }
            for name, of in both.items():
                for key, value in measured(of, parts, labels).items():
                    found[name].setdefault(key, []).append(value)
            print(
                seed,
                {name: {key: round(one[-1], 4) for key, one in of.items()} for name, of in found.items()},
                flush=True,
            )
    differences = {key: difference(own, found["trainer"][key]) for key, own in found["headway"].items()}
    counts = {name: len(part) for name, part in parts.items()}
    micro_f1 = {name: {key: spread(one) for key, one in of.items()} for name, of in found.items()}
    return {"rows": counts, "micro_f1": micro_f1, "difference_in_points": differences}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    sets = {"trec": trec(given.data), "made_up": made_up()}
    result = {name: compared(given.model, rows, given.seeds, given.epochs) for name, rows in sets.items()}
    peers = installed(["transformers", "torch"])
    write(
        "multi-label", {**facts(), "peers": peers, "epochs": given.epochs, "batch": BATCH, "longest": LIMIT, **result}
    )
