"""How long the sequences of a run may be, from those that are there."""

from collections.abc import Sequence

import numpy as np


def usual_longest(lengths: Sequence[int] | np.ndarray, most: int) -> int:
    """A length in tokens that holds nearly all: 1.5 × the 99th percentile, a multiple of 16, from 32 to ``most``."""
    return int(min(most, max(32, -(-1.5 * np.percentile(lengths, 99) // 16) * 16)))


def cut_warning(lengths: np.ndarray, longest: int) -> list[str]:
    """A line about how many texts of these lengths, and what share of all tokens, are longer than that."""
    cut = int((lengths > longest).sum())
    lost = int(np.maximum(0, lengths - longest).sum()) / max(1, int(lengths.sum()))
    return [f"{cut:,} texts exceed {longest} tokens and are cut in training ({lost:.1%} of all tokens)"] if cut else []
