"""How much is read at once: as many tokens in each thread as the processor reads fastest."""

from typing import Any

CACHE = 4 << 20
"""Bytes that the widest numbers of a block may take, those inside its feed-forward layer.  More do not stay near the
processor from one product to the next: many are slower than few."""
LEAST, MOST = 256, 8192
"""Tokens at once, whatever the model: fewer would be all overhead, more gain nothing."""


def tokens_at_once(config: Any) -> int:
    """How many tokens, padding included, a model of this configuration reads at once."""
    hidden = getattr(config, "hidden", None)  # baselines have no feed-forward layer, and gain from long batches
    return MOST if hidden is None else max(LEAST, min(MOST, CACHE // (4 * hidden)))
