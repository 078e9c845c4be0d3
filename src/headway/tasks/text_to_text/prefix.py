"""A source and its target as one sequence, which a decoder alone reads: the loss is on the target."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.data.batches.batching import IGNORED, TargetKind
from headway.data.batches.encoded import Rows, row_lengths
from headway.data.batches.examples import Examples
from headway.tasks.losses import LanguageModeling, bytes_per_token, unknown_in
from headway.tasks.rows import EncodedPairs
from headway.text.tokenizer import Tokenizer
from headway.training.objective import Objective


@dataclass(frozen=True, eq=False)
class Joined(Rows):
    """Each source with its target, less the last id, as input; or what is to be predicted after each of these ids."""

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

    def row(self, at: int) -> list[int]:
        """One row."""
        source, target = self.sources[at], self.targets[at]
        return [*[IGNORED] * (len(source) - 1), *target] if self.wanted else [*source, *target[:-1]]


def joined(pairs: EncodedPairs) -> Examples:
    """Inputs and targets of the same length for each pair."""
    inputs, targets = (Joined(pairs.first, pairs.second, wanted) for wanted in (False, True))
    return Examples(inputs, targets, TargetKind.TOKEN)


def prefix_task(targets: Sequence[list[int]], tokenizer: Tokenizer, label_smoothing: float = 0.0) -> Objective:
    """The task whose bits per byte are those of these targets."""
    n_bytes = sum(len(tokenizer.decode(target).encode("utf-8", "surrogatepass")) for target in targets)
    n_tokens = int(row_lengths(targets).sum())
    return LanguageModeling(bytes_per_token(n_bytes, n_tokens, unknown_in(targets, tokenizer)), label_smoothing)
