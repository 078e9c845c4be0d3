"""Windows of running text that is read while it is trained on."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from headway.data.batches import Batch
from headway.data.feed import HeldOutText, framed
from headway.data.lanes import Cursor, Lane, Reading, StreamPosition, dealt
from headway.data.tokens import Tokens
from headway.data.windows import Position
from headway.errors import InputError

MOST_LANES = 8
"""Lanes of a stream at most, where no more processes begin it: each lane holds a row group, and belongs to one."""


def lane_count(n_groups: int, windows: int, processes: int = 1) -> int:
    """How many lanes a stream of so many row groups has, in batches of so many windows, begun by so many processes."""
    return max(1, min(max(MOST_LANES, processes), n_groups, windows))


class StreamFeed(HeldOutText):
    """Windows of ``length`` + 1 tokens from lanes in turn: ids (B, T) and the same one token further as targets (B, T).

    ``sample`` are tokens of the text by which it is judged, and ``tokens_per_row`` how many a row has, about.
    """

    def __init__(
        self,
        reading: Reading,
        validation: Tokens,
        length: int,
        batch_tokens: int,
        lanes: int,
        *,
        sample: Tokens,
        tokens_per_row: float,
    ):
        super().__init__(validation, length, max(1, batch_tokens // length))
        self.batch_tokens = self.size * length
        """of every batch, over all ranks"""
        self.sample, self.tokens_per_row = sample, tokens_per_row
        runs = dealt([reading.rows(group) for group in range(len(reading.corpus.groups))], lanes)
        self.lanes = [Lane(number, run, reading) for number, run in enumerate(runs)]

    def next(self, position: Position) -> tuple[Batch, Position]:
        """A full batch, whose windows come from the lanes in turn."""
        batch, after = self.part(position, 0, 1)
        if batch is None:
            raise ValueError("a batch without windows")
        return batch, after

    def after(self, position: Position) -> Position:
        """The position after the batch at a position, for which that is read."""
        return self.next(position)[1]

    def part(self, position: Position, rank: int, count: int) -> tuple[Batch | None, StreamPosition]:
        """The windows of a batch that come from the lanes of one of ``count`` ranks, or None; only these are read.

        Lane n belongs to rank n modulo ``count``.  In the position after it only the cursors of these lanes have moved.
        Raises InputError where a rank has no lane, and where a row group cannot be read.
        """
        self.check(count)
        cursors, windows = list(self.cursors(position)), []
        for number in range(position.consumed, position.consumed + self.size):
            at = number % len(self.lanes)
            if at % count == rank:
                window, cursors[at] = self.lanes[at].window(cursors[at], self.length)
                windows.append(window)
        for lane in self.lanes:
            if lane.number % count != rank:
                lane.rest()
        after = StreamPosition(0, position.consumed + self.size, tuple(cursors))
        if not windows:
            return None, after
        tokens = torch.from_numpy(np.stack(windows))
        return Batch(tokens[:, :-1].contiguous(), None, tokens[:, 1:].contiguous()), after

    def check(self, count: int) -> None:
        """Raise InputError where the lanes, or the windows of a batch, are too few for so many processes."""
        if count > len(self.lanes):
            raise InputError(
                f"--stream reads these files in {len(self.lanes)} lanes, which {count} processes cannot share; "
                f"start at most {len(self.lanes)}."
            )
        if count > 1 and self.size < len(self.lanes):
            raise InputError(
                f"--batch-tokens has room for {self.size} windows of {self.length}; several processes need one from "
                f"each of {len(self.lanes)} lanes. Give more, or start one process."
            )

    def cursors(self, position: Position) -> tuple[Cursor, ...]:
        """Where each lane is; at the beginning for a position that says nothing of lanes."""
        if not isinstance(position, StreamPosition):
            return (Cursor(),) * len(self.lanes)
        if len(position.lanes) != len(self.lanes):
            raise ValueError(f"a position of {len(position.lanes)} lanes, expected {len(self.lanes)}")
        return position.lanes

    def examples(self, position: Position) -> list[int]:
        """The rows at which the lanes are, counted over all shards: where the windows of the batch begin."""
        return [lane.row(cursor) for lane, cursor in zip(self.lanes, self.cursors(position), strict=True)]

    def epochs(self, position: Position) -> float:
        """How often the rows have been gone through, as the mean of all lanes."""
        passes = [
            lane.epochs(at, self.tokens_per_row) for lane, at in zip(self.lanes, self.cursors(position), strict=True)
        ]
        return sum(passes) / len(passes)

    def longest(self) -> tuple[Batch, Batch]:
        """Any of each: all are of one size, but the last of validation.  Nothing is read for it."""
        ids = torch.zeros((self.size, self.length), dtype=torch.int64)
        return Batch(ids, None, ids), next(self.validation())


class FramedStreamFeed(StreamFeed):
    """Windows that look like whole texts: ids (B, T) between ``before`` and ``after``, nothing shifted.

    ``length`` is T; before and after are [CLS] and [SEP], or nothing.  The targets are the ids themselves.
    """

    def __init__(self, *, length: int, batch_tokens: int, frame: tuple[list[int], list[int]], **given: Any):
        room = length - len(frame[0]) - len(frame[1])
        size = max(1, batch_tokens // length)
        super().__init__(length=room, batch_tokens=size * room, **given)
        self.frame, self.batch_tokens = frame, size * length

    def part(self, position: Position, rank: int, count: int) -> tuple[Batch | None, StreamPosition]:
        """As that of a ``StreamFeed``."""
        batch, after = super().part(position, rank, count)
        return None if batch is None else framed(batch, self.frame), after

    def validation(self) -> Iterator[Batch]:
        """Non-overlapping windows of the held-out text (or every n-th window)."""
        return (framed(batch, self.frame) for batch in super().validation())

    def longest(self) -> tuple[Batch, Batch]:
        """Any of each: all are of one size, but the last of validation.  Nothing is read for it."""
        batch, held_out = super().longest()
        return framed(batch, self.frame), held_out
