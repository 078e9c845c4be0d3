"""The batch size of inference: the number of tokens that a thread of a CPU, or a GPU, reads fastest."""

from collections.abc import Sequence
from typing import Any

import torch

CACHE = 4 << 20
"""Maximum bytes of a block's widest activations, those of its feed-forward layer.  More do not stay in the cache from
one product to the next, and larger batches are then slower."""
LEAST, MOST = 256, 8192
"""Bounds of the tokens at once for any model: fewer would be mostly overhead, more are no faster."""
ON_A_GPU = 1 << 15
"""The same for a GPU, which is idle while it is told what to compute, however many tokens there are."""

SHARED_FROM = 8
"""Sequences from which the threads of a CPU divide them: a batch each is faster than all threads in one batch."""


def tokens_for_each(lengths: Sequence[int], most: int, threads: int) -> int:
    """How many tokens of some sequences, padding included, are read at once, at most ``most``, by so many threads.

    From ``SHARED_FROM`` sequences on each thread has a batch.
    """
    if threads == 1 or len(lengths) < SHARED_FROM:
        return most
    return min(most, sum(lengths) // threads + 2 * max(lengths))


def tokens_at_once(config: Any, device: torch.device) -> int:
    """How many tokens, padding included, a model of this configuration reads at once on a device."""
    if device.type == "cuda":
        return ON_A_GPU
    hidden = getattr(config, "hidden", None)  # baselines have no feed-forward layer, and are faster in large batches
    return MOST if hidden is None else max(LEAST, min(MOST, CACHE // (4 * hidden)))
