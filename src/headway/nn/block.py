"""The block: self-attention, optional cross-attention, feed-forward, each in a residual connection with its norm.

Encoder, decoder and encoder-decoder are wirings of it; BERT, GPT-2, Llama and T5 are configurations of it.
"""

from collections.abc import Callable

from torch import Tensor, nn

from headway.nn.attention import Attention
from headway.nn.dropout import Dropout
from headway.nn.feedforward import FeedForward
from headway.nn.positions import Rotation
from headway.nn.state import KeyValueCache


class Residual(nn.Module):
    """A layer with its norm and its residual connection, in either order; the only place where they are combined.

    "pre":  x + dropout(layer(norm(x)))   GPT-2, Llama: the stream itself is never normalised
    "post": norm(x + dropout(layer(x)))   Vaswani et al. 2017, BERT
    """

    def __init__(self, layer: nn.Module, norm: nn.Module, order: str, dropout: float = 0.0):
        super().__init__()
        if order not in ("pre", "post"):
            raise ValueError(f"norm order {order!r} is not 'pre' or 'post'")
        self.layer, self.norm = layer, norm
        self.pre = order == "pre"
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, **given) -> Tensor:
        """(B, T, D) -> (B, T, D); keyword arguments go to the layer."""
        if self.pre:
            return x + self.dropout(self.layer(self.norm(x), **given))
        return self.norm(x + self.dropout(self.layer(x, **given)))


class Block(nn.Module):
    """attention, then ``cross`` where there is a source, then feedforward."""

    def __init__(
        self,
        attention: Attention,
        feedforward: FeedForward,
        norm: Callable[[], nn.Module],
        *,
        cross: Attention | None = None,
        order: str = "pre",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.attention = Residual(attention, norm(), order, dropout)
        self.cross = Residual(cross, norm(), order, dropout) if cross is not None else None
        self.feedforward = Residual(feedforward, norm(), order, dropout)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        source_cache: KeyValueCache | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D).  ``source`` (B, S, D), its mask and its cache are only for ``cross``."""
        x = self.attention(x, mask=mask, causal=causal, rotation=rotation, cache=cache)
        if self.cross is not None:
            x = self.cross(x, source=source, mask=source_mask, cache=source_cache)
        return self.feedforward(x)
