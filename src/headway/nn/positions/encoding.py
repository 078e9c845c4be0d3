"""The interface of all position encodings.

Letters: B batch, T queries, S keys, D width, H heads, K head width.
"""

from collections.abc import Callable

from torch import Tensor, nn

Rotation = Callable[[Tensor], Tensor]
"""What turns queries, or keys, or both side by side: (B, any heads, T, K) -> the same."""


class PositionEncoding:
    """What a Transformer asks of a way to tell positions.  This one tells none; others override what they need.

    An encoding is no module.  What it trains are modules that it makes once, when the model asks for them: the model
    keeps them under its own names (``embedding.learned``, ``relative``), which saved weights go by.
    """

    max_length: int | None = None
    """how many positions can be told; None: any number"""

    def make_vectors(self) -> nn.Module | None:
        """Make and keep what ``embed`` trains, to be registered with the token embedding; None: nothing."""
        return None

    def make_biases(self) -> nn.Module | None:
        """Make and keep what ``bias`` trains, to be registered with the stack of blocks; None: nothing."""
        return None

    def embed(self, positions: Tensor, length: int) -> Tensor | None:
        """What is added to the embeddings of tokens at these positions: (B or 1, T) int -> (B or 1, T, D), or None.

        ``length`` is how many tokens were read up to the last of these, padding included: no position is as high, and
        unlike the positions it is known without waiting for an accelerator.  Raises ValueError past ``max_length``.
        """
        return None

    def rotation(self, positions: Tensor, window: int | None) -> Rotation | None:
        """What turns the queries and new keys at these positions, (B or 1, T) int, in layers with that window."""
        return None

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """What is added to the scores: positions (B or 1, T) and (B or 1, S) -> (B or 1, H, T, S), or None."""
        return None
