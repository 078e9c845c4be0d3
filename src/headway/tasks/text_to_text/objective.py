"""Write a target for a source: translation, and every other way from one text to another.

Letters: B batch, S source length, T target length, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from headway.data.batches.batching import IGNORED, Batch, Examples, TargetKind
from headway.data.batches.encoded import Rows, row_lengths
from headway.nn.kernels.dispatch import cross_entropy, unsmoothed
from headway.tasks.losses import TokenLoss, divergence, twice
from headway.tasks.rows import EncodedPairs


class Translation(TokenLoss):
    """Sequence to sequence with teacher forcing (Sutskever et al. 2014): the decoder reads the true target so far.

    A batch's ids are sources (B, S) and its targets (B, T), each with the token that ends it.  The decoder's inputs are
    the targets moved by one place, with ``start`` before them.  ``label_smoothing`` spreads a share of each target over
    the vocabulary (Szegedy et al. 2016).  With ``r_drop`` α every batch is read twice, and half of α times the
    divergence of the two answers is added (``tasks.losses``).  A target that is ``unknown`` text is never right:
    it stands for characters that the model cannot write.
    """

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

    def predicted(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        wanted = batch.targets != IGNORED
        return self._logits(model, batch)[wanted], batch.targets[wanted], wanted

    def _logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """(B, T, V) in float32."""
        return model(batch.ids, shifted(batch.targets, self.start), batch.mask).float()


def shifted(targets: Tensor, start: int) -> Tensor:
    """The decoder's inputs for targets (B, T): ``start``, then the targets but the last; what fills up becomes 0."""
    inputs = targets.clamp(min=0).roll(1, dims=1)
    inputs[:, 0] = start
    return inputs


@dataclass(frozen=True, eq=False)
class Joined(Rows):
    """Each source with its target, less the last id, as one sequence for a decoder; or what follows each of its ids."""

    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]
    wanted: bool
    """whether these are the predictions; what is to be predicted of the source is ``IGNORED``"""

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def lengths(self) -> np.ndarray:
        """The ids of each row, int64 (N,)."""
        return row_lengths(self.sources) + row_lengths(self.targets) - 1

    def item(self, at: int) -> list[int]:
        """One row."""
        source, target = self.sources[at], self.targets[at]
        return [*[IGNORED] * (len(source) - 1), *target] if self.wanted else [*source, *target[:-1]]


def joined(pairs: EncodedPairs) -> Examples:
    """Inputs and targets of the same length for each pair."""
    inputs, targets = (Joined(pairs.first, pairs.second, wanted) for wanted in (False, True))
    return Examples(inputs, targets, TargetKind.TOKEN)
