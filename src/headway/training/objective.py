"""What the training loop is given: a loss to minimise, and metrics to report."""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from headway.data.batches.batching import Batch

METRICS = ("val_loss", "bits_per_byte", "perplexity", "accuracy", "macro_f1", "bleu", "chrf")
"""Metrics that every run reports, as None where they do not apply."""
OF_SOME = ("mrr", "spearman", "entity_f1", "entity_precision", "entity_recall")
"""Metrics that only the models which have them report."""


class Objective(Protocol):
    """What a model is trained for."""

    name: str
    by_rows: bool
    """whether a batch's loss is the sum of its rows' losses, so that rows can be computed separately"""

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the loss over a batch, in nats, and how many targets it is a sum over."""

    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """``val_loss`` and the other metrics that are reported, over all batches.

        ``each`` is called with an array for each batch, float64 (units, 2), with the result of every held-out unit:
        (predicted, true) class of a row, (sum of the loss, number of targets) of a window, a conversation or a pair of
        texts, (rank of the right text, 1) or (cosine, score) of a pair to be compared.
        ``training.evaluation.comparison`` reads it.
        """

    def cost(self, metrics: dict[str, Any]) -> float:
        """The number by which evaluations are compared: the smallest is the best."""
