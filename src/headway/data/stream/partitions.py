"""Stream partitions: each reads its own row groups, tokenises their documents on the fly and cuts them into windows.

A partition can resume at any row and token: the order of its row groups is a function of (seed, epoch, partition), and
the order of the rows in one a function of (seed, epoch, row group).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headway.data.batches.cache import cut
from headway.data.batches.windows import Position
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
    """One partition.  It holds one row group at a time, and continues where it is unless another cursor is given."""

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
            self._begin(cursor)
        self._cursor = None  # until the window is complete: a signal may interrupt this anywhere
        while self._ready - cursor.skip < length + 1:
            start, ids = next(self._coming)
            if not self._held and cursor.skip and (replace(start, skip=cursor.skip) != cursor):
                raise ValueError(f"there is no text at {cursor}; did the data change?")
            self._held.append((start, ids))
            self._ready += len(ids)
        found, at, wanted = [], cursor.skip, length + 1
        for _, ids in self._held:
            part = ids[at : at + wanted]
            found.append(part)
            wanted, at = wanted - len(part), max(0, at - len(ids))
            if not wanted:
                break
        skip = cursor.skip + length
        while skip >= len(self._held[0][1]):
            gone = len(self._held.popleft()[1])
            skip, self._ready = skip - gone, self._ready - gone
        self._cursor = replace(self._held[0][0], skip=skip)
        return np.concatenate(found), self._cursor

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

    def _begin(self, cursor: Cursor) -> None:
        self.rest()
        self._coming = self._documents(cursor)

    def _documents(self, at: Cursor) -> Iterator[tuple[Cursor, np.ndarray]]:
        """Every document from a row on, without end, with the cursor at which it begins; empty ones are left out."""
        epoch, first, row, found = at.epoch, at.group, at.row, True
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
                            found = True
                            yield Cursor(epoch, place, number), ids
                row = 0
            if not found:
                first_file = self.reading.corpus.shards[self.reading.corpus.groups[self.groups[0]].shard]
                raise InputError(f"{first_file.name}: there is no text in its rows, only blank space; leave it out.")
            epoch, first, found = epoch + 1, 0, False

    def _together(self, order: np.ndarray, row: int, group: int) -> Iterator[tuple[list[int], list[str]]]:
        """The rows of a row group from one on, in its order, as many at a time as are tokenised together."""
        numbers: list[int] = []
        texts: list[str] = []
        size, corpus, place = 0, self.reading.corpus, self.reading.corpus.groups[group]
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
