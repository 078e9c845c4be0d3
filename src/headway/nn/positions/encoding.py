"""The interface of all position encodings.

Letters: B batch, T queries, S keys, D width, H heads, K head width.
"""

from collections.abc import Callable

from torch import Tensor, nn

Rotation = Callable[[Tensor], Tensor]
"""A function that rotates queries, or keys, or both together: (B, any heads, T, K) -> the same."""


class PositionEncoding:
    """What a Transformer asks of a position encoding.  This one encodes nothing; subclasses override what they need.

    An encoding is not a module.  The modules that it trains are made once, when the model asks for them: the model
    registers them under its own names (``embedding.learned``, ``relative``), which are the names of the saved weights.
    """

    max_length: int | None = None
    """the number of positions that can be encoded; None: any number"""

    def make_vectors(self) -> nn.Module | None:
        """Make and keep the module that ``embed`` uses, registered with the token embedding; None: there is none."""
        return None

    def make_biases(self) -> nn.Module | None:
        """Make and keep the module that ``bias`` uses, registered with the stack of blocks; None: there is none."""
        return None

    def embed(self, positions: Tensor, length: int) -> Tensor | None:
        """Vectors to add to the embeddings of tokens at these positions: (B or 1, T) int -> (B or 1, T, D), or None.

        ``length`` is the number of tokens up to the last of these, padding included: it exceeds every position and,
        unlike them, is known without waiting for an accelerator.  Raises ValueError past ``max_length``.
        """
        return None

    def rotation(self, positions: Tensor, window: int | None) -> Rotation | None:
        """The rotation of the queries and new keys at these positions, (B or 1, T) int, in layers with that window."""
        return None

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """The bias to add to the scores: positions (B or 1, T) and (B or 1, S) -> (B or 1, H, T, S), or None."""
        return None
