"""What the training loop is given: a loss to minimise, and metrics to report."""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from headway.data.batches.batching import Batch


class Objective(Protocol):
    """What a model is trained for."""

    by_rows: bool = True
    """whether a batch's loss is the sum of its rows' losses, so that rows can be computed separately"""

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, float] | tuple[Tensor, float, Tensor]:
        """The sum of the loss over a batch, in nats, and how many targets it is a sum over, or how much they weigh.

        Where training minimises more than validation measures (smoothing, weights, R-Drop), third the sum of the
        latter, from the same outputs: it is what people see.
        """

    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """``val_loss`` and the other metrics that are reported, over all batches.

        ``each`` receives an array for each batch, float64 (units, 2), with the result of every held-out unit (a row, a
        window, a conversation, a pair), as ``training.evaluation.metric.UNITS`` says for the headline metric.
        """

    def cost(self, metrics: dict[str, Any]) -> float:
        """The number by which evaluations are compared, the smallest is the best: usually the loss."""
        return float(metrics["val_loss"])
