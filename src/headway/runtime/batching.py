"""Texts that are read together: those of like length, as many in each thread as the processor reads fastest."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from headway.data.batches import length_batches, pad
from headway.io.fork_safety import check_threads
from headway.nn.threads import Threads

CACHE = 4 << 20
"""Bytes that the widest numbers of a block may take, those inside its feed-forward layer.  More do not stay near the
processor from one product to the next: many are slower than few."""
LEAST, MOST = 256, 8192
"""Tokens at once, whatever the model: fewer would be all overhead, more gain nothing."""

Found = TypeVar("Found")


def tokens_at_once(config: Any) -> int:
    """How many tokens, padding included, a model of this configuration reads at once."""
    hidden = getattr(config, "hidden", None)  # baselines have no feed-forward layer, and gain from long batches
    return MOST if hidden is None else max(LEAST, min(MOST, CACHE // (4 * hidden)))


def read_together(
    windows: Sequence[Sequence[int]], config: Any, read: Callable[[np.ndarray, Tensor, Tensor | None], Found]
) -> list[tuple[np.ndarray, Found]]:
    """Every sequence of ids once: (the numbers of some, int64 (B,), what ``read`` makes of them), without gradients.

    ``read`` is given those numbers, ids (B, T), and a mask (B, T), or None where all are tokens.  It is called in
    several threads at a time.
    """
    check_threads()
    if not windows:
        return []
    groups = length_batches([len(window) for window in windows], tokens_at_once(config), 0, 0)

    def one(index: np.ndarray) -> Found:
        ids, mask = pad([windows[i] for i in index])
        with torch.no_grad():
            return read(index, ids, None if bool(mask.all()) else mask)

    with Threads(min(torch.get_num_threads(), len(groups))) as threads:
        return list(zip(groups, threads.map(one, groups), strict=True))
