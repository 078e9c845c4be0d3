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
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import facts, headway, installed, spread, write
from scipy.stats import t as student

import headway as library
from headway.data.batches.batching import length_batches
from headway.hub.directory import save_model
from headway.hub.fine_tune import for_classification
from headway.hub.kept_entries import keep
from headway.tasks.label_sets import best_thresholds, set_scores
from headway.text.tokenizer import Tokenizer

LIMIT, BATCH, TEST, HELD_OUT = 64, 16, 2000, 400
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


def start(model: str, labels: list[str], seed: int, place: Path) -> None:
    """The model at the beginning: the base with a head that Headway draws."""
    base: Any = library.load_model(model)
    for_classification(base, len(labels), dropout=0.1, seed=seed)
    keep(base, problem_type="multi_label_classification")
    save_model(base, place, id2label={str(at): label for at, label in enumerate(labels)})
    Tokenizer.load(Path(model)).save(place, max_length=LIMIT)


def trainer(place: Path, parts: dict[str, Rows], labels: list[str], batches: list[np.ndarray], seed: int) -> Any:
    """Scores (N, C) of the held-out and the test rows by the Trainer; an evaluation at the end of each epoch."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    tokenizer = AutoTokenizer.from_pretrained(place)
    data = {}
    for name, rows in parts.items():
        targets = matrix(rows, labels).astype(np.float32)
        read = [tokenizer(text, truncation=True, max_length=LIMIT) for text, _ in rows]
        data[name] = [{**ids, "labels": row} for ids, row in zip(read, targets, strict=True)]
    collate = DataCollatorWithPadding(tokenizer)
    epochs = len(batches)

    class Ordered(Trainer):  # type: ignore[misc]
        """Reads the batches of Headway, in their order."""

        def get_train_dataloader(self) -> Any:
            class Sampler:
                turn = -1

                def __iter__(self) -> Any:
                    self.turn += 1
                    return iter(batches[self.turn % epochs])

                def __len__(self) -> int:
                    return len(batches[0])

            return torch.utils.data.DataLoader(data["train"], batch_sampler=Sampler(), collate_fn=collate)

    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        **{"num_train_epochs": epochs, "learning_rate": 5e-5, "seed": seed, "per_device_train_batch_size": BATCH},
        **{"per_device_eval_batch_size": 64, "eval_strategy": "epoch", "save_strategy": "epoch"},
        **{"load_best_model_at_end": True, "save_total_limit": 1, "report_to": "none", "disable_tqdm": True},
        use_cpu=True,
    )
    network = AutoModelForSequenceClassification.from_pretrained(place)
    run = Ordered(network, arguments, train_dataset=data["train"], eval_dataset=data["held"], data_collator=collate)
    run.train()
    return [1 / (1 + np.exp(-run.predict(data[name]).predictions.astype(float))) for name in ("held", "test")]


def ours(model: str, files: dict[str, Path], parts: dict[str, Rows], seed: int, epochs: int, out: Path) -> Any:
    """The same by Headway, its run's labels and the batches that it read, epoch by epoch."""
    words = ("train", files["train"], "--validation", files["held"], "--from", model, "--epochs", epochs)
    sizes = ("--batch-size", BATCH, "--length", LIMIT, "--seed", seed, "--time", "30m", "--precision", "float32")
    headway(*map(str, (*words, *sizes, "--evaluations", epochs, "--out", out)))
    pipe: Any = library.load(out, task="multi_label")
    told = json.loads((out / "headway.json").read_text())
    lengths = [
        min(LIMIT, len(ids)) for ids in pipe.tokenizer.encode_batch([t for t, _ in parts["train"]], special=True)
    ]
    plan = told["plan"]
    batches = [
        length_batches(lengths, plan["batch_tokens"], plan["seed"], epoch, max_examples=plan["max_examples"])
        for epoch in range(epochs)
    ]
    scores = [pipe.probabilities([text for text, _ in parts[name]]).numpy() for name in ("held", "test")]
    return scores, pipe.labels, batches


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
            place = Path(folder) / f"start-{seed}"
            scores, labels, batches = ours(model, files, parts, seed, epochs, Path(folder) / f"run-{seed}")
            start(model, labels, seed, place)
            both = {"headway": scores, "trainer": trainer(place, parts, labels, batches, seed)}
            for name, of in both.items():
                for key, value in measured(of, parts, labels).items():
                    found[name].setdefault(key, []).append(value)
            print(
                seed,
                {name: {key: round(one[-1], 4) for key, one in of.items()} for name, of in found.items()},
                flush=True,
            )
    differences = {}
    for key, own in found["headway"].items():
        points = 100 * (np.array(own) - np.array(found["trainer"][key]))
        half = float(student.ppf(0.995, seeds - 1) * points.std(ddof=1) / np.sqrt(seeds))
        mean = float(points.mean())
        differences[key] = {"mean": mean, "interval_99": [mean - half, mean + half], "runs": points.tolist()}
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
