"""The objective of a task whose loss is computed for each row by itself, and the loss of the targets of each row.

Letters: B batch, T length, N places, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batches.batching import Batch


class RowLoss(ABC):
    """A loss for each row, of the model's output for it and its target."""

    by_rows = True

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each row (B,), from the outputs (B, ...) and the targets (B,)."""

    def means(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Further metrics that are means over the rows: by key, the value of each row (B,).

        The first is the headline metric, by which the model is compared with its baselines; without any, that is the
        loss.
        """
        return {}

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        """The sum over the rows, and their number."""
        return self.losses(model(*batch.read).float(), batch.targets).sum(), len(batch.targets)

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """``val_loss`` and the means, over all rows."""
        parts = [self.of(model(*batch.read).float(), batch.targets) for batch in batches]
        if each is not None:
            each += [units(part) for part in parts]
        return averages(parts)

    def of(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The value of each row (B,) for the means, and then for the loss."""
        return {**self.means(outputs, targets), "val_loss": self.losses(outputs, targets)}

    def cost(self, metrics: dict[str, Any]) -> float:
        """The loss."""
        return float(metrics["val_loss"])


def units(part: dict[str, Tensor]) -> np.ndarray:
    """The results of the rows for the headline metric, float64 (B, 2): the value, and 1."""
    values = next(iter(part.values())).double().cpu().numpy()
    return np.stack([values, np.ones_like(values)], axis=1)


def averages(parts: list[dict[str, Tensor]]) -> dict[str, Any]:
    """The mean of each metric over the rows of all parts."""
    return {key: float(torch.cat([part[key] for part in parts]).double().mean()) for key in parts[0]}


def row_losses(logits: Tensor, targets: Tensor, wanted: Tensor) -> np.ndarray:
    """(sum of -ln p, number of targets) of each row of a batch: float64 (B, 2).

    ``wanted``, bool (B, T), is true where a target is; logits (N, V) and targets (N,) are theirs, row by row.
    """
    losses = F.cross_entropy(logits, targets, reduction="none").double().cpu().numpy()  # (N,)
    mask = wanted.cpu().numpy()
    rows = np.nonzero(mask)[0]
    return np.stack([np.bincount(rows, weights=losses, minlength=len(mask)), mask.sum(axis=1)], axis=1)
