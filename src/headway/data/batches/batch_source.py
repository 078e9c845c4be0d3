"""Batch sources for the training loop: the batch at a position, and the validation batches in order."""

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from headway.data.batches.batching import Batch, Examples, TargetKind
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
        epoch, consumed, starts = position.epoch, position.consumed, np.zeros(0, dtype=np.int64)
        while len(starts) < size:
            offset, numbers = self._order(epoch)
            more = numbers[consumed : consumed + size - len(starts)].astype(np.int64)
            starts, consumed = np.concatenate([starts, offset + more * self.length]), consumed + len(more)
            if consumed >= len(numbers):
                epoch, consumed = epoch + 1, 0
        return starts, Position(epoch, consumed)

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
    windows = (tokens[start : start + length + 1].astype(np.int64) for start in range(0, len(tokens) - 1, length))
    return ((window[:-1], window[1:]) for window in windows)


Frame = tuple[list[int], list[int]]
"""The ids before and after each window, such as [CLS] and [SEP], which make it look whole."""


class BatchSource(Protocol):
    """A source of batches.  What it gives depends only on its position, so that a run can be resumed."""

    def next(self, position: Position) -> tuple[Batch, Position]:
        """The batch at a position, and the position after it."""

    def after(self, position: Position) -> Position:
        """The position after the batch at a position, without making the batch."""

    def examples(self, position: Position) -> list[int]:
        """The numbers of the examples in the batch at a position."""

    def validation(self) -> Iterator[Batch]:
        """Every validation example once, in the same order each time."""

    def validation_batches(self) -> int:
        """How many batches ``validation`` gives."""

    def validation_order(self) -> np.ndarray | None:
        """The number of each held-out unit (row, window) in the order of ``validation``; None for their own order."""
        return None

    def epochs(self, position: Position) -> float:
        """How many epochs of the training data have been read."""

    def longest(self) -> tuple[Batch, Batch]:
        """The batches that need the most memory, one of training and one of validation: the first if all are alike."""
        return self.next(Position())[0], next(self.validation())


class HeldOutText(BatchSource):
    """The held-out part of running text in windows of ``length`` tokens, twice as many at a time as in training.

    The targets of windows in a ``frame``, which is a part of their length, are the ids themselves.
    """

    sample: Tokens
    """tokens of training by which the data are judged: all, or some"""

    def __init__(self, held_out: Tokens, length: int, batch_tokens: int, frame: Frame | None = None):
        self.held_out, self.length, self.frame = held_out, room_in(length, frame), frame
        self.size = max(1, batch_tokens // length)
        self.every = 1
        """validation reads each window (1), every second (2), and so on: for texts too long for the time"""
        evaluation_windows(held_out, self.length)  # raises now rather than later

    def validation(self) -> Iterator[Batch]:
        """Non-overlapping windows of the held-out text: each of its targets once (or every n-th window)."""
        return text_batches(self.held_out, self.length, 2 * self.size, self.every, self.frame)

    def validation_batches(self) -> int:
        """How many batches ``validation`` gives."""
        targets, length = len(self.held_out) - 1, self.length
        whole = -(-(targets // length) // self.every)
        return -(-whole // (2 * self.size)) + (targets % length > 0)


class TextBatches(HeldOutText):
    """Windows of running text: ids (B, T) and the same one token further as targets (B, T), or the ids in a frame."""

    def __init__(
        self, train: Tokens, validation: Tokens, length: int, batch_tokens: int, seed: int, frame: Frame | None = None
    ):
        self.windows, self.sample = Windows(train, room_in(length, frame), seed), train
        super().__init__(validation, length, batch_tokens, frame)

    def next(self, position: Position) -> tuple[Batch, Position]:
        """A full batch, which may reach into the next epoch."""
        rows, after = self.windows.take(position, self.size)
        return framed(next_tokens(torch.from_numpy(rows)), self.frame), after

    def after(self, position: Position) -> Position:
        """The position after the batch at a position, without making the batch."""
        return self.windows.starts(position, self.size)[1]

    def examples(self, position: Position) -> list[int]:
        """The tokens at which the windows of the batch begin, by number."""
        return self.windows.starts(position, self.size)[0].tolist()

    def epochs(self, position: Position) -> float:
        """How many epochs of the text have been read."""
        return position.epoch + position.consumed / self.windows.count(position.epoch)


class EpochBatches(BatchSource):
    """Batches that end with the epoch."""

    train: Any
    """the examples to train on"""
    _latest: tuple[int, dict[int, np.ndarray]] | None = None

    @abstractmethod
    def order(self, epoch: int) -> list[np.ndarray]:
        """The numbers of the examples in each batch of an epoch."""

    def at(self, position: Position) -> np.ndarray:
        """The numbers of the examples in a batch, in its order.  Raises ValueError where none begins."""
        if self._latest is None or self._latest[0] != position.epoch:
            batches = self.order(position.epoch)
            starts = np.cumsum([0, *map(len, batches)]).tolist()
            self._latest = position.epoch, dict(zip(starts, batches, strict=False))
        if (index := self._latest[1].get(position.consumed)) is None:
            raise ValueError(f"no batch begins at example {position.consumed} of an epoch; did the data change?")
        return index

    def after(self, position: Position) -> Position:
        """The position after the batch at a position, without making the batch."""
        consumed = position.consumed + len(self.at(position))
        return Position(position.epoch + 1) if consumed >= len(self.train) else Position(position.epoch, consumed)

    def examples(self, position: Position) -> list[int]:
        """The numbers of the examples in the batch at a position."""
        return self.at(position).tolist()

    def epochs(self, position: Position) -> float:
        """How many epochs of the examples have been read."""
        return position.epoch + position.consumed / len(self.train)


class RowBatches(EpochBatches):
    """Examples in batches of similar length; ``recut`` gives the examples of an epoch, where epochs differ in them."""

    train: Examples

    def __init__(
        self,
        train: Examples,
        held_out: Examples,
        batch_tokens: int,
        seed: int,
        *,
        max_examples: int | None = None,
        recut: Callable[[int], Examples] | None = None,
    ):
        self.train, self.held_out, self.recut = train, held_out, recut
        self.batch_tokens, self.seed, self.max_examples = batch_tokens, seed, max_examples

    def next(self, position: Position) -> tuple[Batch, Position]:
        """The batch whose first example is number ``consumed`` of the epoch."""
        index = self.at(position)  # which cuts the examples of a new epoch
        return self.train.batch(index), self.after(position)

    def validation(self) -> Iterator[Batch]:
        """The held-out examples by length, with little padding."""
        return self.held_out.batches(2 * self.batch_tokens)

    def validation_batches(self) -> int:
        """How many batches ``validation`` gives."""
        return len(self.held_out.order(2 * self.batch_tokens))

    def validation_order(self) -> np.ndarray | None:
        """The number of each held-out example in the order of ``validation``."""
        return np.concatenate(self.held_out.order(2 * self.batch_tokens))

    def longest(self) -> tuple[Batch, Batch]:
        """The longest examples of each part, as many as one batch holds."""
        return self.train.longest(self.batch_tokens, self.max_examples), self.held_out.longest(2 * self.batch_tokens)

    def order(self, epoch: int) -> list[np.ndarray]:
        """The numbers of the examples in each batch of an epoch, which are cut for it."""
        self.train = self.train if self.recut is None else self.recut(epoch)
        return self.train.order(self.batch_tokens, self.seed, epoch, self.max_examples)


def next_tokens(windows: torch.Tensor) -> Batch:
    """Each token of some windows int64 (B, T + 1) but the last as input, with the token after it as target: (B, T)."""
    inputs, targets = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
    return Batch({"ids": inputs}, None, targets, TargetKind.TOKEN)


def own_targets(ids: torch.Tensor) -> Batch:
    """Sequences int64 (B, T) whose targets are the ids themselves."""
    return Batch({"ids": ids}, None, ids, TargetKind.TOKEN)


def room_in(length: int, frame: Frame | None) -> int:
    """The tokens of a text in a window of ``length``."""
    return length if frame is None else length - len(frame[0]) - len(frame[1])


def framed(batch: Batch, frame: Frame | None) -> Batch:
    """The same sequences (B, T) with ids before and after each; the targets are the ids themselves."""
    if frame is None:
        return batch
    before, after = (torch.tensor(part, dtype=torch.int64).expand(len(batch.ids), -1) for part in frame)
    return own_targets(torch.cat([before, batch.ids, after], dim=1))


def text_batches(tokens: Tokens, length: int, size: int, every: int = 1, frame: Frame | None = None) -> Iterator[Batch]:
    """Non-overlapping windows, ``size`` at a time: every token but the first is a target once; the last is shorter.

    With ``every`` n, the windows 0, n, 2 n and so on alone.  A ``frame`` comes on top of ``length``.
    """
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for pair in itertools.islice(evaluation_windows(tokens, length), 0, None, every):
        if pairs and (len(pairs) == size or len(pair[0]) != len(pairs[0][0])):
            yield framed(_stacked(pairs), frame)
            pairs = []
        pairs.append(pair)
    yield framed(_stacked(pairs), frame)


def _stacked(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Batch:
    ids, targets = (torch.from_numpy(np.stack(part)) for part in zip(*pairs, strict=True))
    return Batch({"ids": ids}, None, targets, TargetKind.TOKEN)
