"""Windows over running text: the order of training, and every target evaluated once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headway.data.batches.tokens import Tokens
from headway.errors import InputError
from headway.io.quantities import counted


@dataclass(frozen=True)
class Position:
    """How far training has come: the epoch, and how many windows of it are used up."""

    epoch: int = 0
    consumed: int = 0


class Windows:
    """Non-overlapping windows over a long row of tokens, in a new order and from a new offset every epoch.

    A window holds `length` + 1 tokens, the inputs and, one further, the targets; neighbours share one token.  The order
    is a pure function of (seed, epoch), and all that is held in memory: four bytes for each window.
    """

    def __init__(self, tokens: Tokens, length: int, seed: int) -> None:
        """Raises InputError when there are too few tokens for one window."""
        if length < 1:
            raise ValueError(f"length is {length}, expected 1 or more")
        if len(tokens) < length + 1:
            raise InputError(
                f"the training text has {len(tokens):,} tokens, fewer than one window of {length + 1:,} "
                f"(context length {length:,} and one target). Add text, or choose a shorter context."
            )
        self.tokens, self.length, self.seed = tokens, length, seed
        self._latest: tuple[int, int, np.ndarray] | None = None

    def count(self, epoch: int) -> int:
        """How many windows an epoch has."""
        return len(self._order(epoch)[1])

    def take(self, position: Position, size: int) -> tuple[np.ndarray, Position]:
        """The next `size` windows, int64 (size, length + 1), and the position after them.

        A batch that reaches the end of an epoch continues in the next, so every window of each epoch is used once.
        """
        starts, after = self.starts(position, size)
        windows = np.stack([self.tokens[start : start + self.length + 1] for start in starts.tolist()])
        return windows.astype(np.int64), after

    def starts(self, position: Position, size: int) -> tuple[np.ndarray, Position]:
        """The tokens at which the next `size` windows begin, int64 (size,), and the position after them."""
        if size < 1:
            raise ValueError(f"size is {size}, expected 1 or more")
        epoch, consumed = position.epoch, position.consumed
        parts: list[np.ndarray] = []
        wanted = size
        while wanted:
            offset, numbers = self._order(epoch)
            starts = offset + numbers[consumed : consumed + wanted].astype(np.int64) * self.length
            parts.append(starts)
            wanted -= len(starts)
            consumed += len(starts)
            if consumed >= self.count(epoch):
                epoch, consumed = epoch + 1, 0
        return np.concatenate(parts), Position(epoch, consumed)

    def _order(self, epoch: int) -> tuple[int, np.ndarray]:
        """The token at which the first window of an epoch begins, and the windows by number in the order of use."""
        if self._latest is None or self._latest[0] != epoch:
            random = np.random.default_rng([self.seed, epoch])
            last = len(self.tokens) - self.length - 1  # the last token at which a window can start
            offset = int(random.integers(min(self.length, last + 1)))
            count = (last - offset) // self.length + 1
            numbers = np.arange(count, dtype=np.uint32 if count <= 1 << 32 else np.int64)
            random.shuffle(numbers)
            self._latest = (epoch, offset, numbers)
        return self._latest[1:]


def evaluation_windows(tokens: Tokens, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs (inputs, targets), int64 (length,) each, in order: every token but the first is a target exactly once.

    The last pair may be shorter.  Raises InputError when there is no target at all.
    """
    if length < 1:
        raise ValueError(f"length is {length}, expected 1 or more")
    if len(tokens) < 2:
        raise InputError(
            f"the validation text has {counted(len(tokens), 'token')}, expected 2 or more. "
            "Add text, or name a file with --validation."
        )
    return _evaluation_windows(tokens, length)


def _evaluation_windows(tokens: Tokens, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(tokens) - 1, length):
        window = tokens[start : start + length + 1].astype(np.int64)
        yield window[:-1], window[1:]
