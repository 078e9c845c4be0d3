"""The batch size of inference: the number of tokens per thread that a CPU reads fastest."""

from typing import Any

CACHE = 4 << 20
"""Maximum bytes of a block's widest activations, those of its feed-forward layer.  More do not stay in the cache from
one product to the next, and larger batches are then slower."""
LEAST, MOST = 256, 8192
"""Bounds of the tokens at once for any model: fewer would be mostly overhead, more are no faster."""


def tokens_at_once(config: Any) -> int:
    """How many tokens, padding included, a model of this configuration reads at once."""
    hidden = getattr(config, "hidden", None)  # baselines have no feed-forward layer, and are faster in large batches
    return MOST if hidden is None else max(LEAST, min(MOST, CACHE // (4 * hidden)))
