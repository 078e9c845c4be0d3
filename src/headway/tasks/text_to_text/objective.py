"""Write a target for a source: translation, and every other way from one text to another.

Letters: B batch, S source length, T target length, V vocabulary.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batching import IGNORED, Batch
from headway.nn.kernels.dispatch import cross_entropy, unsmoothed
from headway.tasks.losses import divergence, row_losses, twice


class Translation:
    """Sequence to sequence with teacher forcing (Sutskever et al. 2014): the decoder reads the true target so far.

    A batch's ids are sources (B, S) and its targets (B, T), each with the token that ends it.  The decoder's inputs are
    the targets moved by one place, with ``start`` before them.  ``label_smoothing`` spreads a share of each target over
    the vocabulary (Szegedy et al. 2016).  With ``r_drop`` α every batch is read twice, and half of α times the
    divergence of the two answers is added (``tasks.losses``).  A target that is ``unknown`` text is never right:
    it stands for characters that the model cannot write.
    """

    by_rows = True

    def __init__(self, start: int, *, label_smoothing: float = 0.0, r_drop: float = 0.0, unknown: int | None = None):
        self.unknown = IGNORED if unknown is None else unknown
        self.start, self.label_smoothing, self.r_drop = start, label_smoothing, r_drop

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int, Tensor]:
        """What is minimised, the number of tokens of all targets, and the sum of their -ln p, in nats."""
        count = int((batch.targets != IGNORED).sum())
        smoothing = self.label_smoothing if model.training else 0.0
        read_twice = model.training and bool(self.r_drop)
        batch = twice(batch) if read_twice else batch
        logits = self._logits(model, batch)  # (B, T, V)
        flat = logits.flatten(0, 1), batch.targets.flatten()  # (B·T, V), (B·T,)
        loss = cross_entropy(*flat, smoothing)
        shown = unsmoothed(loss, *flat, smoothing)
        if read_twice:
            halves = zip(logits.chunk(2), (batch.targets != IGNORED).chunk(2), strict=True)
            one, other = (half[asked] for half, asked in halves)
            apart = divergence(one, other)
            loss, shown = loss / 2 + self.r_drop / 2 * apart, shown / 2
        return loss, count, shown

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """val_loss (nats per target token), perplexity, and accuracy: how often the likeliest next token is right."""
        total, right, count = 0.0, 0, 0
        for batch in batches:
            logits = self._logits(model, batch)
            wanted = batch.targets != IGNORED
            rows = row_losses(logits[wanted], batch.targets[wanted], wanted)
            total += float(rows[:, 0].sum())
            known = batch.targets != self.unknown
            right += int(((logits.argmax(dim=-1) == batch.targets) & known).sum())
            count += int(wanted.sum())
            if each is not None:
                each.append(rows)
        loss = total / max(1, count)
        return {"val_loss": loss, "perplexity": math.exp(min(loss, 700.0)), "accuracy": right / max(1, count)}

    def cost(self, metrics: dict[str, Any]) -> float:
        """The loss."""
        return float(metrics["val_loss"])

    def _logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """(B, T, V) in float32."""
        return model(batch.ids, shifted(batch.targets, self.start), batch.mask).float()


def shifted(targets: Tensor, start: int) -> Tensor:
    """The decoder's inputs for targets (B, T): ``start``, then the targets but the last; what fills up becomes 0."""
    inputs = targets.clamp(min=0).roll(1, dims=1)
    inputs[:, 0] = start
    return inputs
