"""How fast a published encoder is fine-tuned: Headway beside the Trainer of transformers, in one run.

    python benchmarks/fine_tune_speed.py MODEL DATA [ROWS [ROUNDS]]

Both begin from the same directory and train one pass over the same rows with the same batch (16 rows), length limit
(128 tokens), precision and threads, each in a process of its own.  The Trainer runs as its documentation sets it up
(each batch padded to its longest row), and with rows of similar length grouped.  The three take turns.  What is
compared is rows per second in the training loop: reading, tokenising, evaluating and saving are left out on both sides.
The rows are drawn from the training files by a fixed seed; 64 others are Headway's held-out rows.
"""

import csv
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from machine import facts, spread, write

from headway.training.hardware.precision import product_rate

LIMIT, BATCH, HELD_OUT = 128, 16, 64
FILES = {"tweets": ("reviews/airline-train.csv", "text"), "reviews": ("reviews/customer-train.csv", "review")}
PRECISIONS = ("float32", "bfloat16")


def ours(model: str, file: Path, precision: str, folder: Path, n_rows: int) -> float:
    """Rows per second of ``headway train --from``: those of the file by the seconds until the evaluation at its end."""
    out = folder / "run"
    words = ("train", file, "--validation", file.with_suffix(".held-out.csv"), "--from", model, "--epochs", 1)
    words += ("--time", "30m", "--evaluations", 1, "--out", out)
    sizes = ("--batch-size", BATCH, "--length", LIMIT, "--precision", precision, "--quiet")
    sizes += ("--r-drop", 0, "--average", 0)  # which the Trainer does not do
    command = [sys.executable, "-m", "headway", *map(str, (*words, *sizes))]
    subprocess.run(command, check=True, capture_output=True)
    events = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    seconds = [event["seconds"] for event in events if event["event"] == "evaluation"][-1]
    shutil.rmtree(out)
    return n_rows / seconds


def theirs(model: str, file: Path, column: str, precision: str, grouped: bool) -> float:
    """Rows per second that the Trainer reports of itself, in a new process."""
    words = ("--trainer", model, file, column, precision, "grouped" if grouped else "padded")
    done = subprocess.run([sys.executable, __file__, *map(str, words)], check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def trainer(model: str, file: str, column: str, precision: str, batches: str) -> None:
    """What ``theirs`` runs: sequence classification as the documentation of transformers sets it up."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    with Path(file).open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    labels = sorted({row["label"] for row in rows})
    tokenizer = AutoTokenizer.from_pretrained(model)
    data = []
    for row in rows:
        encoded = tokenizer(row[column], truncation=True, max_length=LIMIT)
        data.append({**encoded, "labels": labels.index(row["label"])})
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=BATCH,
        num_train_epochs=1,
        learning_rate=5e-5,
        bf16=precision == "bfloat16",
        use_cpu=not torch.cuda.is_available(),
        train_sampling_strategy="group_by_length" if batches == "grouped" else "random",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    network = AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(labels))
    run = Trainer(network, arguments, train_dataset=data, data_collator=DataCollatorWithPadding(tokenizer))
    print(run.train().metrics["train_samples_per_second"])


def measure(model: str, data: Path, n_rows: int, rounds: int) -> dict[str, Any]:
    """Rates by data set and precision, and their ratios round by round."""
    rates_here = {name: product_rate(getattr(torch, name)) for name in PRECISIONS}
    precisions = [name for name in PRECISIONS if rates_here[name] >= rates_here["float32"]]  # others are not trained in
    found: dict[str, Any] = {"products": rates_here, "rows": n_rows, "batch": BATCH, "longest": LIMIT, "results": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, (path, column) in FILES.items():
            file = folder / f"{name}.csv"
            with (data / path).open(newline="", encoding="utf-8") as table:
                every = list(csv.DictReader(table))
            drawn = [line for line in every if line[column].strip() and line["label"].strip()]
            random.Random(0).shuffle(drawn)
            parts = {file: drawn[:n_rows], file.with_suffix(".held-out.csv"): drawn[n_rows : n_rows + HELD_OUT]}
            for part, lines in parts.items():
                with part.open("w", newline="", encoding="utf-8") as out:
                    writer = csv.DictWriter(out, [column, "label"], extrasaction="ignore")
                    writer.writeheader()
                    writer.writerows(lines)
            for precision in precisions:
                rates: dict[str, list[float]] = {"headway": [], "trainer": [], "trainer, grouped": []}
                for _ in range(rounds):
                    rates["headway"].append(ours(model, file, precision, folder, n_rows))
                    rates["trainer"].append(theirs(model, file, column, precision, grouped=False))
                    rates["trainer, grouped"].append(theirs(model, file, column, precision, grouped=True))
                pairs = {key: [a / b for a, b in zip(rates["headway"], rates[key], strict=True)] for key in rates}
                result = {
                    "data": name,
                    "precision": precision,
                    "rows_per_second": {key: spread(values) for key, values in rates.items()},
                    "ratio": {key: spread(pairs[key]) for key in ("trainer", "trainer, grouped")},
                }
                found["results"].append(result)
                print({key: round(spread(pairs[key])["median"], 2) for key in pairs}, name, precision, flush=True)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "--trainer":
        trainer(*sys.argv[2:])
    else:
        given = [int(word) for word in sys.argv[3:]] + [800, 3][len(sys.argv) - 3 :]
        result = measure(sys.argv[1], Path(sys.argv[2]), *given)
        write("fine-tune-speed", {**facts(), **result})
