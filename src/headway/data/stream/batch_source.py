"""Windows of running text that is read during training."""

import numpy as np
import torch

from headway.data.batches.batch_source import Frame, HeldOutText, framed, next_tokens, own_targets
from headway.data.batches.batching import Batch
from headway.data.batches.tokens import Tokens
from headway.data.batches.windows import Position
from headway.data.stream.partitions import Cursor, Partition, Reading, StreamPosition, dealt
from headway.errors import InputError

MAX_PARTITIONS = 8
"""Partitions of a stream, unless more processes start it: each holds a row group, and belongs to one process."""


def partition_count(n_groups: int, windows: int, processes: int = 1) -> int:
    """The number of partitions of a stream, by its row groups, the windows of a batch, and the starting processes."""
    return max(1, min(max(MAX_PARTITIONS, processes), n_groups, windows))


class StreamBatches(HeldOutText):
    """Windows of ``length`` + 1 tokens from all partitions in turn: ids (B, T), and targets (B, T) one token further.

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
        passes = [
            one.epochs(at, self.tokens_per_row) for one, at in zip(self.partitions, self.cursors(position), strict=True)
        ]
        return sum(passes) / len(passes)

    def longest(self) -> tuple[Batch, Batch]:
        """Any of each: all are of one size, but the last of validation.  Nothing is read for it."""
        ids = torch.zeros((self.size, self.length), dtype=torch.int64)
        return framed(own_targets(ids), self.frame), next(self.validation())
