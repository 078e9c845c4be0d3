"""Rows of ids in one array behave as the lists that they were made of."""

import pytest

from headway.data.feed import RowFeed
from headway.data.id_rows import IdRows
from headway.data.windows import Position

ROWS = [[5, 70_000, 7], [], [8], [1, 2, 3, 4]]


def test_rows_come_back_as_they_were():
    rows = IdRows(iter(ROWS))
    assert list(rows) == ROWS and len(rows) == 4
    assert rows[0] == ROWS[0] and rows[-1] == ROWS[-1] and rows[1:3] == ROWS[1:3]
    assert type(rows[0][1]) is int
    with pytest.raises(IndexError):
        rows[4]


def test_no_rows_are_no_rows():
    assert list(IdRows([])) == [] and not IdRows([])


def test_a_feed_of_them_gives_the_same_batches():
    rows = [row or [0] for row in ROWS]
    one, other = (RowFeed(part, [0, 1, 0, 1], part, [0, 1, 0, 1], 8, seed=3) for part in (rows, IdRows(rows)))
    position = Position()
    for _ in range(5):
        (batch, after), (same, _) = one.next(position), other.next(position)
        assert batch.ids.equal(same.ids) and batch.targets.equal(same.targets)
        position = after
