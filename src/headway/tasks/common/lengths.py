"""How long the sequences of a run may be, from those that are there."""

from collections.abc import Sequence

import numpy as np


def usual_longest(lengths: Sequence[int], most: int) -> int:
    """A length in tokens that holds nearly all: 1.5 × the 99th percentile, a multiple of 16, from 32 to ``most``."""
    return int(min(most, max(32, -(-1.5 * np.percentile(lengths, 99) // 16) * 16)))
