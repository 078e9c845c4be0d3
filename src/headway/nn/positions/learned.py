"""A learned vector for each position, added to the embeddings (BERT, GPT-2).

Letters: B batch, T length, D width.
"""

from torch import Tensor, nn

from headway.nn.positions.encoding import PositionEncoding


class LearnedPositions(nn.Module):
    """A table of vectors for the positions below ``max_length``; positions beyond are refused.

    The table has ``start`` rows before the row of the first position (RoBERTa and BART: 2).
    """

    def __init__(self, max_length: int, width: int, start: int = 0):
        super().__init__()
        self.max_length, self.start = max_length, start
        self.table = nn.Embedding(max_length + start, width)

    def forward(self, positions: Tensor, length: int | None = None) -> Tensor:
        """(B or 1, T) int -> (B or 1, T, D).  Raises ValueError past the trained length.

        ``length``, where given, is an upper bound of the positions.  The positions themselves, which an accelerator may
        not have computed yet, are then only looked at where the bound is too long, which may be due to padding.
        """
        if (length is None or length > self.max_length) and positions.numel():
            longest = int(positions.max()) + 1
            if longest > self.max_length:
                raise ValueError(
                    f"{longest} tokens, but this model has learned positions for {self.max_length} only: "
                    "beyond that its result would be undefined"
                )
        return self.table(positions + self.start)


class LearnedEncoding(PositionEncoding):
    """The encoding with a table of its own, ``LearnedPositions``."""

    def __init__(self, max_length: int, width: int, start: int = 0):
        self.max_length, self.sizes = max_length, (max_length, width, start)

    def make_vectors(self) -> LearnedPositions:
        self.vectors = LearnedPositions(*self.sizes)
        return self.vectors

    def embed(self, positions: Tensor, length: int) -> Tensor:
        """(B or 1, T) int -> (B or 1, T, D)."""
        return self.vectors(positions, length)
