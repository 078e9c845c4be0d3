"""Batch sources for the training loop: the batch at a position, and the validation batches in order."""

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch

from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.examples import Examples
from headway.data.batches.tokens import Tokens
from headway.data.batches.windows import Position, Windows, evaluation_windows

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
        """The batches that need the most memory: one of training and one of validation."""


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
        self,
        train: Tokens,
        validation: Tokens,
        length: int,
        batch_tokens: int,
        seed: int,
        frame: Frame | None = None,
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

    def longest(self) -> tuple[Batch, Batch]:
        """The first of each: all are of one size, but the last."""
        return self.next(Position())[0], next(self.validation())


class EpochBatches(BatchSource):
    """Batches that end with the epoch."""

    train: Any
    """the examples to train on"""

    @abstractmethod
    def at(self, position: Position) -> np.ndarray:
        """The numbers of the examples in a batch.  Raises ValueError where none begins."""

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
        self._latest: tuple[int, dict[int, np.ndarray]] | None = None

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

    def at(self, position: Position) -> np.ndarray:
        """The numbers of the examples in a batch, in its order."""
        index = self._batches(position.epoch).get(position.consumed)
        if index is None:
            raise ValueError(f"no batch begins at example {position.consumed} of an epoch; did the data change?")
        return index

    def _batches(self, epoch: int) -> dict[int, np.ndarray]:
        """The batches of an epoch by the number of examples before each."""
        if self._latest is None or self._latest[0] != epoch:
            self.train = self.train if self.recut is None else self.recut(epoch)
            made = self.train.order(self.batch_tokens, self.seed, epoch, self.max_examples)
            ends = np.cumsum([len(index) for index in made]).tolist()
            self._latest = (epoch, dict(zip([0, *ends[:-1]], made, strict=True)))
        return self._latest[1]


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
