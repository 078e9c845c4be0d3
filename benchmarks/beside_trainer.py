"""What benchmarks beside the Trainer of transformers share: the same start, rows and order, and paired differences."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import headway
from scipy.stats import t as student

import headway as library
from headway.data.batches.batching import length_batches
from headway.hub.directory import save_model
from headway.hub.fine_tune import for_classification
from headway.hub.kept_entries import keep
from headway.text.tokenizer import Tokenizer

LIMIT, BATCH = 64, 16


def start(model: str, seed: int, place: Path, outputs: int, **entries: Any) -> None:
    """The model at the beginning: the base with a head that Headway draws; ``entries`` are those of config.json."""
    base: Any = library.load_model(model)
    for_classification(base, outputs, dropout=0.1, seed=seed)
    keep(base, **entries)
    save_model(base, place)
    Tokenizer.load(Path(model)).save(place, max_length=LIMIT)


def ours(model: str, files: dict[str, Path], texts: Sequence[str], seed: int, epochs: int, out: Path, task: str) -> Any:
    """The pipeline that Headway trains by itself, and the batches of ``texts`` that it read, epoch by epoch."""
    words = ("train", files["train"], "--validation", files["held"], "--from", model, "--epochs", epochs)
    sizes = ("--batch-size", BATCH, "--length", LIMIT, "--seed", seed, "--time", "30m", "--precision", "float32")
    headway(*map(str, (*words, *sizes, "--evaluations", epochs, "--task", task, "--out", out)))
    pipe: Any = library.load(out, task=task)
    plan = json.loads((out / "headway.json").read_text())["plan"]
    lengths = [min(LIMIT, len(ids)) for ids in pipe.tokenizer.encode_batch(list(texts), special=True)]
    batches = [
        length_batches(lengths, plan["batch_tokens"], plan["seed"], epoch, max_examples=plan["batch_size"])
        for epoch in range(epochs)
    ]
    return pipe, batches


def trainer(
    place: Path, texts: dict[str, list[str]], targets: dict[str, np.ndarray], batches: list[np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """The outputs (N, C) for the held-out and the test texts by the Trainer.

    By its defaults (AdamW, 5e-5, linear decay); it keeps the weights of the epoch with the least loss on the held-out
    texts.
    """
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
    for name, part in texts.items():
        read = [tokenizer(text, truncation=True, max_length=LIMIT) for text in part]
        data[name] = [{**ids, "labels": row} for ids, row in zip(read, targets[name], strict=True)]
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
    return {name: run.predict(data[name]).predictions.astype(float) for name in ("held", "test")}


def difference(own: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """The paired differences in points, their mean, and Student's 99 % interval over seeds."""
    points = 100 * (np.array(own) - np.array(theirs))
    half = float(student.ppf(0.995, len(points) - 1) * points.std(ddof=1) / np.sqrt(len(points)))
    mean = float(points.mean())
    return {"mean": mean, "interval_99": [mean - half, mean + half], "runs": points.tolist()}


def once(place: Path, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a file holds; it is computed and written where there is none, so that a script goes on where it stopped."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        found = json.dumps(compute())
        place.write_text(found)
    kept: dict[str, Any] = json.loads(place.read_text())
    return kept
