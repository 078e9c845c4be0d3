"""Texts that are read together: those of like length, as many as the processor reads fastest."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from headway.data.batches import length_batches, pad

CACHE = 8 << 20
"""Bytes that the widest numbers of a block may take, those inside its feed-forward layer.  More do not stay near the
processor from one product to the next: many are slower than few."""
LEAST, MOST = 256, 8192
"""Tokens at once, whatever the model: fewer would be all overhead, more gain nothing."""


def tokens_at_once(config: Any) -> int:
    """How many tokens, padding included, a model of this configuration reads at once."""
    hidden = getattr(config, "hidden", None)  # baselines have no feed-forward layer, and gain from long batches
    return MOST if hidden is None else max(LEAST, min(MOST, CACHE // (4 * hidden)))


def read_together(windows: Sequence[Sequence[int]], config: Any) -> Iterator[tuple[np.ndarray, Tensor, Tensor | None]]:
    """Every sequence of ids once: (numbers of some, their ids (B, T), mask (B, T), or None where all are tokens)."""
    if not windows:
        return
    for index in length_batches([len(window) for window in windows], tokens_at_once(config), 0, 0):
        ids, mask = pad([windows[i] for i in index])
        yield index, ids, None if bool(mask.all()) else mask
