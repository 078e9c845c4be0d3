"""Batch sources for the training loop: the batch at a position, and the validation batches in order."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from headway.data.batches.batching import IGNORED, Batch, TargetBatch, length_batches, longest_batch, pad
from headway.data.batches.encoded import row_lengths
from headway.data.batches.tokens import Tokens
from headway.data.batches.windows import Position, Windows, evaluation_windows

Sides = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
"""The first and the second sequences of ids of some pairs."""
Targets = Any
"""What is wanted of each of some sequences: a sequence of it, or an array."""


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

    def epochs(self, position: Position) -> float:
        """How many epochs of the training data have been read."""

    def longest(self) -> tuple[Batch, Batch]:
        """The batches that need the most memory: one of training and one of validation."""


class HeldOutText:
    """The held-out part of running text in windows of ``length`` tokens, twice as many at a time as in training."""

    sample: Tokens
    """tokens of training by which the data are judged: all, or some"""

    def __init__(self, held_out: Tokens, length: int, size: int):
        self.held_out, self.length, self.size = held_out, length, size
        self.every = 1
        """validation reads each window (1), every second (2), and so on: for texts too long for the time"""
        evaluation_windows(held_out, length)  # raises now rather than later

    def validation(self) -> Iterator[Batch]:
        """Non-overlapping windows of the held-out text: each of its targets once (or every n-th window)."""
        return text_batches(self.held_out, self.length, 2 * self.size, self.every)

    def validation_batches(self) -> int:
        """How many batches ``validation`` gives."""
        targets, length = len(self.held_out) - 1, self.length
        whole = -(-(targets // length) // self.every)
        return -(-whole // (2 * self.size)) + (targets % length > 0)

    def validation_order(self) -> np.ndarray | None:
        """Windows come in their own order."""
        return None


class TextBatches(HeldOutText):
    """Windows of running text: ids (B, T) and the same one token further as targets (B, T)."""

    def __init__(self, train: Tokens, validation: Tokens, length: int, batch_tokens: int, seed: int):
        self.windows, self.sample = Windows(train, length, seed), train
        super().__init__(validation, length, max(1, batch_tokens // length))

    def next(self, position: Position) -> tuple[Batch, Position]:
        """A full batch, which may reach into the next epoch."""
        rows, after = self.windows.take(position, self.size)
        tokens = torch.from_numpy(rows)
        return Batch(tokens[:, :-1].contiguous(), None, tokens[:, 1:].contiguous()), after

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


class RowBatches:
    """Sequences in batches of similar length: ids and mask (B, T), and targets (B,), a class or a number for each.

    Or targets (B, T), one for each token: then those of a sequence are a sequence, and `IGNORED` fills them up.
    """

    def __init__(
        self,
        train: Sequence[Sequence[int]],
        train_targets: Targets,
        validation: Sequence[Sequence[int]],
        validation_targets: Targets,
        batch_tokens: int,
        seed: int,
        *,
        max_examples: int | None = None,
    ):
        self.train, self.train_targets = train, train_targets
        self.held_out, self.held_out_targets = validation, validation_targets
        self.batch_tokens, self.seed, self.max_examples = batch_tokens, seed, max_examples
        self._lengths = row_lengths(train)
        self._latest: tuple[int, dict[int, np.ndarray]] | None = None

    def next(self, position: Position) -> tuple[Batch, Position]:
        """The batch whose first example is number ``consumed`` of the epoch."""
        return self._batch(self._at(position)), self.after(position)

    def after(self, position: Position) -> Position:
        """The position after the batch at a position, without making the batch."""
        consumed = position.consumed + len(self._at(position))
        return Position(position.epoch + 1) if consumed == len(self.train) else Position(position.epoch, consumed)

    def examples(self, position: Position) -> list[int]:
        """The numbers of the examples in the batch at a position."""
        return self._at(position).tolist()

    def validation(self) -> Iterator[Batch]:
        """The held-out examples by length, with little padding."""
        return row_batches(self.held_out, self.held_out_targets, 2 * self.batch_tokens)

    def validation_batches(self) -> int:
        """How many batches ``validation`` gives."""
        return len(self._held_out_batches())

    def validation_order(self) -> np.ndarray | None:
        """The number of each held-out example in the order of ``validation``."""
        return np.concatenate(self._held_out_batches())

    def _held_out_batches(self) -> list[np.ndarray]:
        return length_batches(row_lengths(self.held_out), 2 * self.batch_tokens, 0, 0)

    def epochs(self, position: Position) -> float:
        """How many epochs of the examples have been read."""
        return position.epoch + position.consumed / len(self.train)

    def longest(self) -> tuple[Batch, Batch]:
        """The longest examples of each part, as many as one batch holds."""
        index = longest_batch(self._lengths, self.batch_tokens, max_examples=self.max_examples)
        held_out = longest_batch(row_lengths(self.held_out), 2 * self.batch_tokens)
        return self._batch(index), _padded(*_picked(held_out, self.held_out, self.held_out_targets))

    def _at(self, position: Position) -> np.ndarray:
        index = self._batches(position.epoch).get(position.consumed)
        if index is None:
            raise ValueError(f"no batch begins at example {position.consumed} of an epoch; did the data change?")
        return index

    def _batch(self, index: np.ndarray) -> Batch:
        """These examples together."""
        return _padded(*_picked(index, self.train, self.train_targets))

    def _order(self, epoch: int) -> list[np.ndarray]:
        return length_batches(self._lengths, self.batch_tokens, self.seed, epoch, max_examples=self.max_examples)

    def _batches(self, epoch: int) -> dict[int, np.ndarray]:
        """The batches of an epoch by the number of examples before each."""
        if self._latest is None or self._latest[0] != epoch:
            made = self._order(epoch)
            ends = np.cumsum([len(index) for index in made]).tolist()
            self._latest = (epoch, dict(zip([0, *ends[:-1]], made, strict=True)))
        return self._latest[1]


class FramedBatches(TextBatches):
    """Windows of running text that look like whole texts: ids (B, T) between ``before`` and ``after``, nothing shifted.

    ``length`` is T; before and after are [CLS] and [SEP], or nothing.  The targets are the ids themselves.
    """

    def __init__(
        self,
        train: Tokens,
        validation: Tokens,
        length: int,
        batch_tokens: int,
        seed: int,
        frame: tuple[list[int], list[int]],
    ):
        super().__init__(train, validation, length - len(frame[0]) - len(frame[1]), batch_tokens, seed)
        self.frame = frame
        self.size = max(1, batch_tokens // length)

    def next(self, position: Position) -> tuple[Batch, Position]:
        """A full batch, which may reach into the next epoch."""
        batch, after = super().next(position)
        return framed(batch, self.frame), after

    def validation(self) -> Iterator[Batch]:
        """Non-overlapping windows of the held-out text (or every n-th window)."""
        return (framed(batch, self.frame) for batch in super().validation())


class PairBatches(RowBatches):
    """Pairs of sequences with a score each: ids and mask (2 P, T), the first texts above the second; targets (P,)."""

    def __init__(
        self,
        train: Sides,
        train_scores: np.ndarray,
        validation: Sides,
        validation_scores: np.ndarray,
        batch_tokens: int,
        seed: int,
        *,
        max_examples: int | None = None,
    ):
        parts = train[0], train_scores, validation[0], validation_scores
        super().__init__(*parts, batch_tokens, seed, max_examples=max_examples)
        self.sides, self.held_out_sides = train, validation
        self._lengths = pair_lengths(train)

    def validation(self) -> Iterator[Batch]:
        """The held-out pairs by length, with little padding."""
        return pair_batches(self.held_out_sides, self.held_out_targets, 2 * self.batch_tokens)

    def _held_out_batches(self) -> list[np.ndarray]:
        return length_batches(pair_lengths(self.held_out_sides), 2 * self.batch_tokens, 0, 0)

    def longest(self) -> tuple[Batch, Batch]:
        """The longest pairs of each part, as many as one batch holds."""
        index = longest_batch(self._lengths, self.batch_tokens, max_examples=self.max_examples)
        held_out = longest_batch(pair_lengths(self.held_out_sides), 2 * self.batch_tokens)
        return self._batch(index), _paired(held_out, self.held_out_sides, self.held_out_targets)

    def _batch(self, index: np.ndarray) -> Batch:
        return _paired(index, self.sides, self.train_targets)


class TargetBatches(RowBatches):
    """Sources with a target each: ids and mask (B, S), and targets (B, T); pairs of similar lengths together.

    ``recut`` gives the ids of the same pairs as an epoch reads them, where each epoch cuts them differently.
    """

    def __init__(
        self,
        train: Sides,
        validation: Sides,
        batch_tokens: int,
        seed: int,
        *,
        max_examples: int | None = None,
        recut: Callable[[int], Sides] | None = None,
    ):
        self.recut = recut
        super().__init__(*train, *validation, batch_tokens, seed, max_examples=max_examples)

    def validation(self) -> Iterator[Batch]:
        """The held-out pairs by length, with little padding."""
        return target_batches((self.held_out, self.held_out_targets), 2 * self.batch_tokens)

    def _held_out_batches(self) -> list[np.ndarray]:
        return target_order((self.held_out, self.held_out_targets), 2 * self.batch_tokens)

    def longest(self) -> tuple[Batch, Batch]:
        """The longest pairs of each part, as many as one batch holds."""
        lengths, most = row_lengths(self.train_targets), self.max_examples
        index = longest_batch(lengths, self.batch_tokens, second=self._lengths, max_examples=most)
        lengths, second = row_lengths(self.held_out_targets), row_lengths(self.held_out)
        held_out = longest_batch(lengths, 2 * self.batch_tokens, second=second)
        batch = _padded(*_picked(held_out, self.held_out, self.held_out_targets))
        return self._batch(index), TargetBatch(batch.ids, batch.mask, batch.targets)

    def _batch(self, index: np.ndarray) -> Batch:
        batch = super()._batch(index)
        return TargetBatch(batch.ids, batch.mask, batch.targets)

    def _batches(self, epoch: int) -> dict[int, np.ndarray]:
        if self.recut is not None and (self._latest is None or self._latest[0] != epoch):
            self.train, self.train_targets = self.recut(epoch)
            self._lengths = row_lengths(self.train)
        return super()._batches(epoch)

    def _order(self, epoch: int) -> list[np.ndarray]:
        lengths, most = row_lengths(self.train_targets), self.max_examples
        return length_batches(lengths, self.batch_tokens, self.seed, epoch, second=self._lengths, max_examples=most)


def target_batches(pairs: Sides, batch_tokens: int) -> Iterator[TargetBatch]:
    """Every source once with its target, pairs of similar lengths together, always in the same order."""
    for index in target_order(pairs, batch_tokens):
        batch = _padded(*_picked(index, *pairs))
        yield TargetBatch(batch.ids, batch.mask, batch.targets)


def target_order(pairs: Sides, batch_tokens: int) -> list[np.ndarray]:
    """The pairs of each of ``target_batches``, by number."""
    sources, targets = map(row_lengths, pairs)
    return length_batches(targets, batch_tokens, 0, 0, second=sources)


def framed(batch: Batch, frame: tuple[list[int], list[int]]) -> Batch:
    """The same sequences (B, T) with ids before and after each; the targets are the ids themselves."""
    before, after = (torch.tensor(part, dtype=torch.int64).expand(len(batch.ids), -1) for part in frame)
    ids = torch.cat([before, batch.ids, after], dim=1)
    return Batch(ids, None, ids)


def pair_lengths(pairs: Sides) -> np.ndarray:
    """How many tokens each pair takes in a batch, int64 (N,): twice its longer text."""
    return 2 * np.maximum(*map(row_lengths, pairs))


def pair_batches(pairs: Sides, scores: np.ndarray, batch_tokens: int) -> Iterator[Batch]:
    """Every pair once with its score, pairs of similar length together, always in the same order."""
    for index in length_batches(pair_lengths(pairs), batch_tokens, 0, 0):
        yield _paired(index, pairs, scores)


def text_batches(tokens: Tokens, length: int, size: int, every: int = 1) -> Iterator[Batch]:
    """Non-overlapping windows, ``size`` at a time: every token but the first is a target once; the last is shorter.

    With ``every`` n, the windows 0, n, 2 n and so on alone.
    """
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for pair in itertools.islice(evaluation_windows(tokens, length), 0, None, every):
        if pairs and (len(pairs) == size or len(pair[0]) != len(pairs[0][0])):
            yield _stacked(pairs)
            pairs = []
        pairs.append(pair)
    yield _stacked(pairs)


def row_batches(sequences: Sequence[Sequence[int]], targets: Targets, batch_tokens: int) -> Iterator[Batch]:
    """Every sequence once with its target or targets, those of similar length together, always in the same order."""
    for index in length_batches(row_lengths(sequences), batch_tokens, 0, 0):
        yield _padded([sequences[i] for i in index], [targets[i] for i in index])


def _picked(index: np.ndarray, *columns: Sequence[Any]) -> Iterator[list[Any]]:
    """The same entries of each column."""
    return ([column[i] for i in index] for column in columns)


def _paired(index: np.ndarray, pairs: Sides, scores: Sequence[float] | np.ndarray) -> Batch:
    first, second = _picked(index, *pairs)
    ids, mask = pad(first + second)
    targets = torch.tensor([float(scores[i]) for i in index], dtype=torch.float32)
    return Batch(ids, None if bool(mask.all()) else mask, targets)


def _stacked(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Batch:
    ids, targets = (torch.from_numpy(np.stack(part)) for part in zip(*pairs, strict=True))
    return Batch(ids, None, targets)


def _padded(sequences: list[Sequence[int]], targets: list[Any]) -> Batch:
    ids, mask = pad(sequences)
    if isinstance(targets[0], float | np.floating):
        wanted = torch.tensor(targets, dtype=torch.float32)
    else:
        each = isinstance(targets[0], int | np.integer)
        wanted = torch.tensor(targets, dtype=torch.int64) if each else pad(targets, IGNORED)[0]
    return Batch(ids, None if bool(mask.all()) else mask, wanted)
