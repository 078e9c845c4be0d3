"""A learned vector for each position, added to the embeddings (BERT, GPT-2).

Letters: B batch, T length, D width.
"""

from torch import Tensor, nn

from headway.nn.positions.encoding import PositionEncoding


class LearnedPositions(nn.Module):
    """A table of vectors for the positions below ``max_length``; undefined beyond, and refused there.

    The table has ``start`` rows before that of the first position (RoBERTa and BART: 2).
    """

    def __init__(self, max_length: int, width: int, start: int = 0):
        super().__init__()
        self.max_length, self.start = max_length, start
        self.table = nn.Embedding(max_length + start, width)

    def forward(self, positions: Tensor, length: int | None = None) -> Tensor:
        """(B or 1, T) int -> (B or 1, T, D).  Raises ValueError past the trained length.

        Every position is below ``length`` where that is given.  So the positions themselves, which an accelerator may
        not have computed yet, are looked at only where padding may account for what is too long.
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
    """``LearnedPositions`` of its own."""

    def __init__(self, max_length: int, width: int, start: int = 0):
        self.max_length, self.sizes = max_length, (max_length, width, start)

    def make_vectors(self) -> LearnedPositions:
        """The table."""
        self.vectors = LearnedPositions(*self.sizes)
        return self.vectors

    def embed(self, positions: Tensor, length: int) -> Tensor:
        """(B or 1, T) int -> (B or 1, T, D)."""
        return self.vectors(positions, length)
