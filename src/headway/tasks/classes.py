"""Tasks whose targets are classes, one for each text: loss and metrics, data, and what cells of a file mean.

Letters: N texts, B texts of a batch, C classes.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from headway.data.batches.batching import Batch, Examples, TargetKind
from headway.data.open.columns import Detected
from headway.data.records.labels import Labelled
from headway.tasks.base import TextTask
from headway.tasks.losses import RowLoss, WholeLoss, scores
from headway.tasks.rows_data import NumberData


class Classes(WholeLoss):
    """Cross-entropy, with accuracy and macro F1."""

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets.long(), reduction="none")

    def measured(self, outputs: Tensor, targets: Tensor, each: list[np.ndarray] | None = None) -> dict[str, Any]:
        """val_loss and the ``scores`` of the likeliest classes."""
        guesses, wanted = outputs.argmax(dim=1).numpy(), targets.long().numpy()
        if each is not None:
            each.append(np.stack([guesses, wanted], axis=1).astype(np.float64))
        return {"val_loss": float(self.losses(outputs, targets).mean()), **self.scores(wanted, guesses)}

    def scores(self, targets: np.ndarray, guesses: np.ndarray) -> dict[str, Any]:
        """What is measured of predicted classes (N,), given the true ones (N,)."""
        return scores(targets, guesses, self.labels)


class ClassData(NumberData):
    """Texts with a class each."""

    def judged(self, guess: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
        wanted = self.targets.astype(int)
        metrics = self.objective(None).scores(wanted, guess)
        short = {key: value for key, value in metrics.items() if key not in ("per_class", "confusion")}
        return short, np.stack([guess, wanted], axis=1).astype(np.float64)


class ClassTask(TextTask):
    """A task whose targets are classes."""

    def measure(self, pipe: Any) -> Classes:
        return Classes(pipe.labels)

    def meaning(self, written: str) -> Hashable:
        """What a cell, or a label of a model, means; equal for those of one class."""
        return written

    def meant(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        if known is None:
            return np.ones(len(rows.classes), dtype=bool)
        labels = {*map(self.meaning, known.labels)}
        return np.array([self.meaning(cell) in labels for cell in rows.classes], dtype=bool)

    def expected(self, known: Any) -> str:
        if known is None:
            return ""
        return f": the model's are {', '.join(known.labels[:20])}{', ...' * (len(known.labels) > 20)}"

    def targets(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        """The number of each row's class, float32 (N,)."""
        number_of = {label: number for number, label in enumerate(known.labels)}
        meant = {self.meaning(label): number for label, number in number_of.items()}
        numbers = [number_of.get(cell, meant.get(self.meaning(cell), -1)) for cell in rows.classes]
        return np.array(numbers, dtype=np.float32)[rows.targets]

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[RowLoss, Batch]:
        numbers = (np.arange(len(inputs)) % len(pipe.labels)).astype(np.float32)
        return self.measure(pipe), Examples(inputs, numbers, TargetKind.ROW).together()

    def example(self, number: int, pipe: Any) -> str:
        return str(pipe.labels[number % len(pipe.labels)])
