"""Windows of running text that is read during training, from partitions."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from headway.data.batches.batch_source import Frame, HeldOutText, Position, framed, next_tokens, own_targets
from headway.data.batches.batching import Batch
from headway.data.batches.cache import cut
from headway.data.batches.tokens import Tokens
from headway.data.formats.parquet import text_at
from headway.data.stream.streamed import Streamed
from headway.errors import InputError

TOGETHER = 1 << 16
"""Characters that are tokenised in one call, about."""


@dataclass(frozen=True)
class Cursor:
    """The position of a partition: ``skip`` tokens of the document at a row of a row group are used up.

    ``group`` and ``row`` count in the order of the epoch.
    """

    epoch: int = 0
    group: int = 0
    row: int = 0
    skip: int = 0


@dataclass(frozen=True)
class StreamPosition(Position):
    """The position of a stream: ``consumed`` windows, taken from all partitions in turn; each has its own epoch."""

    lanes: tuple[Cursor, ...] = ()
    """of each partition, as checkpoints name it"""


def position_of(plain: dict[str, Any]) -> Position:
    """A position as JSON holds it, of either kind."""
    if "lanes" not in plain:
        return Position(**plain)
    return StreamPosition(**{**plain, "lanes": tuple(Cursor(**cursor) for cursor in plain["lanes"])})


@dataclass(frozen=True)
class Reading:
    """What is read, and how."""

    corpus: Streamed
    held: Sequence[int]
    """of each row group, the first rows that are not for training"""
    encode: Callable[..., list[list[int]]] = field(repr=False)
    """as for ``tokenised``"""
    separator: int | None
    """the id that ends every document"""
    seed: int
    begin: Sequence[int] = ()
    """the ids that begin every document"""

    def rows(self, group: int) -> int:
        """How many rows of a row group are for training."""
        return self.corpus.groups[group].rows - self.held[group]

    def row_order(self, epoch: int, group: int) -> np.ndarray:
        """The training rows of a row group as an epoch reads them, int64 (rows,)."""
        random = np.random.default_rng([self.seed, epoch, group, 1])
        return random.permutation(self.rows(group)) + self.held[group]

    def ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each document, with those that begin it, and followed by the separator, int64."""
        pieces = [[piece for piece, _ in cut(text) if piece] for text in texts]
        encoded = self.encode([row[0] if row else "" for row in pieces])
        for ids, row in zip(encoded, pieces, strict=True):
            for more in self.encode(row[1:], continued=True) if row[1:] else []:
                ids += more
        begin, end = list(self.begin), [] if self.separator is None else [self.separator]
        end = [] if begin == end else end  # one id between two documents
        return [np.array([*begin, *ids, *end] if ids else [], dtype=np.int64) for ids in encoded]


def dealt(rows: Sequence[int], count: int) -> list[list[int]]:
    """Row groups with so many rows each, by number, in ``count`` runs of neighbours with about as many rows each.

    Those without rows are left out; every run has at least one of the others, of which there must be ``count``.
    """
    filled = [group for group, n in enumerate(rows) if n]
    if not 1 <= count <= len(filled):
        raise ValueError(f"{len(filled)} row groups cannot be divided into {count} partitions")
    total, passed, runs = sum(rows), 0, [[filled[0]]]
    for place, group in enumerate(filled[1:], start=1):
        passed += rows[filled[place - 1]]
        needed = count - len(runs)
        due = passed + rows[group] / 2 > total * len(runs) / count  # its middle lies beyond the end of this run
        if needed and (due or len(filled) - place == needed):
            runs.append([])
        runs[-1].append(group)
    return runs


class Partition:
    """One partition.  It holds one row group at a time, and continues where it is unless another cursor is given.

    It can resume at any row and token: the order of its row groups is a function of (seed, epoch, partition), and the
    order of the rows in one a function of (seed, epoch, row group).
    """

    def __init__(self, number: int, groups: Sequence[int], reading: Reading):
        self.number, self.groups, self.reading = number, list(groups), reading
        self.n_rows = sum(reading.rows(group) for group in groups)
        self._cursor: Cursor | None = None
        self._coming: Iterator[tuple[Cursor, np.ndarray]] = iter(())
        self._held: deque[tuple[Cursor, np.ndarray]] = deque()
        self._ready = 0  # tokens held, those that are used up too
        self._texts: Any = None
        self._latest: tuple[int, list[int], np.ndarray] | None = None

    def window(self, cursor: Cursor, length: int) -> tuple[np.ndarray, Cursor]:
        """The ``length`` + 1 tokens from a cursor on, int64, and the cursor ``length`` tokens later.

        Raises InputError where a row group cannot be read.
        """
        if cursor != self._cursor:
            self.rest()
            self._coming = self._documents(cursor)
        self._cursor = None  # until the window is complete: a signal may interrupt this anywhere
        while self._ready - cursor.skip < length + 1:
            start, ids = next(self._coming)
            if not self._held and cursor.skip and (replace(start, skip=cursor.skip) != cursor):
                raise ValueError(f"there is no text at {cursor}; did the data change?")
            self._held.append((start, ids))
            self._ready += len(ids)
        parts, at, wanted = [], cursor.skip, length + 1
        for _, ids in self._held:
            part = ids[at : at + wanted]
            parts.append(part)
            wanted, at = wanted - len(part), max(0, at - len(ids))
            if not wanted:
                break
        skip = cursor.skip + length
        while skip >= len(self._held[0][1]):
            gone = len(self._held.popleft()[1])
            skip, self._ready = skip - gone, self._ready - gone
        self._cursor = replace(self._held[0][0], skip=skip)
        return np.concatenate(parts), self._cursor

    def rest(self) -> None:
        """Hold nothing."""
        self._cursor, self._texts, self._coming, self._ready = None, None, iter(()), 0
        self._held.clear()

    def order(self, epoch: int) -> list[int]:
        """The row groups of the partition as an epoch reads them."""
        return self._ordered(epoch)[0]

    def epochs(self, cursor: Cursor, tokens_per_row: float) -> float:
        """How many epochs the partition has read at a cursor; within a row, by the average number of tokens per row."""
        before = int(self._ordered(cursor.epoch)[1][cursor.group])
        within = min(1.0, cursor.skip / max(1.0, tokens_per_row))
        return cursor.epoch + min(1.0, (before + cursor.row + within) / self.n_rows)

    def row(self, cursor: Cursor) -> int:
        """The row at a cursor, counted over all shards."""
        group = self.order(cursor.epoch)[cursor.group]
        before = sum(one.rows for one in self.reading.corpus.groups[:group])
        return before + int(self.reading.row_order(cursor.epoch, group)[cursor.row])

    def _ordered(self, epoch: int) -> tuple[list[int], np.ndarray]:
        """The row groups of an epoch in order, and how many rows are before each."""
        if self._latest is None or self._latest[0] != epoch:
            random = np.random.default_rng([self.reading.seed, epoch, self.number, 0])
            order = [self.groups[at] for at in random.permutation(len(self.groups))]
            self._latest = (epoch, order, np.cumsum([0, *map(self.reading.rows, order)]))
        return self._latest[1:]

    def _documents(self, at: Cursor) -> Iterator[tuple[Cursor, np.ndarray]]:
        """Every document from a row on, without end, with the cursor at which it begins; empty ones are left out."""
        epoch, first, row, any_text = at.epoch, at.group, at.row, True
        while True:
            for place, group in enumerate(self.order(epoch)):
                if place < first:
                    continue
                self._texts = None  # frees the previous one first
                self._texts = self.reading.corpus.texts_of(group)
                order = self.reading.row_order(epoch, group)
                for numbers, texts in self._together(order, row, group):
                    for number, ids in zip(numbers, self.reading.ids(texts), strict=True):
                        if len(ids):
                            any_text = True
                            yield Cursor(epoch, place, number), ids
                row = 0
            if not any_text:
                first_file = self.reading.corpus.shards[self.reading.corpus.groups[self.groups[0]].shard]
                raise InputError(f"{first_file.name}: there is no text in its rows, only blank space; leave it out.")
            epoch, first, any_text = epoch + 1, 0, False

    def _together(self, order: np.ndarray, row: int, group: int) -> Iterator[tuple[list[int], list[str]]]:
        """The rows of a row group from one on, in its order, as many at a time as are tokenised together."""
        numbers, texts, size = list[int](), list[str](), 0
        corpus, place = self.reading.corpus, self.reading.corpus.groups[group]
        name = f"{corpus.shards[place.shard].place(place.number)}, column {corpus.column!r}"
        for number in range(row, len(order)):
            text = text_at(self._texts, int(order[number]), f"{name}, row {order[number] + 1}")
            if text.strip():
                numbers.append(number)
                texts.append(text)
                size += len(text)
            if size >= TOGETHER:
                yield numbers, texts
                numbers, texts, size = [], [], 0
        if numbers:
            yield numbers, texts


MAX_PARTITIONS = 8
"""Partitions of a stream, unless more processes start it: each holds a row group, and belongs to one process."""


def partition_count(n_groups: int, windows: int, processes: int = 1) -> int:
    """The number of partitions of a stream, by its row groups, the windows of a batch, and the starting processes."""
    return max(1, min(max(MAX_PARTITIONS, processes), n_groups, windows))


class StreamBatches(HeldOutText):
    """Windows from all partitions in turn: ids (B, T), and targets (B, T) one token further, or the ids in a frame.

    ``sample`` are tokens of the text by which it is judged, and ``tokens_per_row`` how many a row has, about.
    """

    def __init__(
        self,
        reading: Reading,
        validation: Tokens,
        length: int,
        batch_tokens: int,
        partitions: int,
        *,
        sample: Tokens,
        tokens_per_row: float,
        frame: Frame | None = None,
    ):
        super().__init__(validation, length, batch_tokens, frame)
        self.batch_tokens = self.size * length
        """of every batch, over all ranks"""
        self.sample, self.tokens_per_row = sample, tokens_per_row
        runs = dealt([reading.rows(group) for group in range(len(reading.corpus.groups))], partitions)
        self.partitions = [Partition(number, run, reading) for number, run in enumerate(runs)]

    def next(self, position: Position) -> tuple[Batch, Position]:
        """A full batch, whose windows come from the partitions in turn."""
        batch, after = self.part(position, 0, 1)
        if batch is None:
            raise ValueError("a batch without windows")
        return batch, after

    def after(self, position: Position) -> Position:
        """The position after the batch at a position, for which that is read."""
        return self.next(position)[1]

    def part(self, position: Position, rank: int, count: int) -> tuple[Batch | None, StreamPosition]:
        """The windows of a batch from the partitions of one of ``count`` ranks, or None; only these are read.

        Partition n belongs to rank n modulo ``count``.  In the position after it, only the cursors of these have moved.
        Raises InputError where a rank has no partition, and where a row group cannot be read.
        """
        self.check(count)
        cursors, windows = list(self.cursors(position)), []
        for number in range(position.consumed, position.consumed + self.size):
            at = number % len(self.partitions)
            if at % count == rank:
                window, cursors[at] = self.partitions[at].window(cursors[at], self.length)
                windows.append(window)
        for partition in self.partitions:
            if partition.number % count != rank:
                partition.rest()
        after = StreamPosition(0, position.consumed + self.size, tuple(cursors))
        if not windows:
            return None, after
        return framed(next_tokens(torch.from_numpy(np.stack(windows))), self.frame), after

    def check(self, count: int) -> None:
        """Raise InputError where the partitions, or the windows of a batch, are too few for so many processes."""
        if count > len(self.partitions):
            raise InputError(
                f"--stream reads these files in {len(self.partitions)} partitions, which {count} processes cannot "
                f"share; start at most {len(self.partitions)}."
            )
        if count > 1 and self.size < len(self.partitions):
            raise InputError(
                f"--batch-tokens has room for {self.size} windows of {self.length}; several processes need one from "
                f"each of {len(self.partitions)} partitions. Give more, or start one process."
            )

    def cursors(self, position: Position) -> tuple[Cursor, ...]:
        """The cursor of each partition; at the start of the data for a position without cursors."""
        if not isinstance(position, StreamPosition):
            return (Cursor(),) * len(self.partitions)
        if len(position.lanes) != len(self.partitions):
            raise ValueError(f"a position of {len(position.lanes)} partitions, expected {len(self.partitions)}")
        return position.lanes

    def examples(self, position: Position) -> list[int]:
        """The row of each partition, counted over all shards: where the windows of the batch begin."""
        return [one.row(cursor) for one, cursor in zip(self.partitions, self.cursors(position), strict=True)]

    def epochs(self, position: Position) -> float:
        """How many epochs of the rows have been read, as the mean of all partitions."""
        parts = zip(self.partitions, self.cursors(position), strict=True)
        return sum(part.epochs(at, self.tokens_per_row) for part, at in parts) / len(self.partitions)

    def longest(self) -> tuple[Batch, Batch]:
        """Any of each: all are of one size, but the last of validation.  Nothing is read for it."""
        ids = torch.zeros((self.size, self.length), dtype=torch.int64)
        return framed(own_targets(ids), self.frame), next(self.validation())
