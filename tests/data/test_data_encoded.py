"""Rows of ids, in memory or in a file of the cache, behave as the lists that they were made of."""

import random

import numpy as np
import pytest

from headway.data.batches import encoded
from headway.data.batches.batch_source import Position, RowBatches
from headway.data.batches.batching import Examples, TargetKind
from headway.data.batches.encoded import encoded_rows, row_hashes, row_lengths, unnamed_rows

ROWS = [[5, 70_000, 7], [], [8], [1, 2, 3, 4]]


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path, monkeypatch):
    """Rows as they are kept, ids read three at a time where they are in a file."""
    if request.param == "file":
        monkeypatch.setattr(encoded, "IN_MEMORY", 0)
        monkeypatch.setattr(encoded, "AT_ONCE", 3)
    return lambda rows: encoded_rows(iter(rows), vocab_size=100_000, key="k", directory=tmp_path)


def test_rows_come_back_as_they_were(make):
    rows = make(ROWS)
    assert list(rows) == ROWS and len(rows) == 4 and rows == ROWS
    assert rows[0] == ROWS[0] and rows[-1] == ROWS[-1] and rows[1:3] == ROWS[1:3]
    assert type(rows[0][1]) is int and rows.lengths.tolist() == [3, 0, 1, 4] == row_lengths(ROWS).tolist()
    with pytest.raises(IndexError):
        rows[4]


def test_no_rows_are_no_rows(make):
    assert list(make([])) == [] and not make([]) and len(make([]).hashes()) == 0


def test_rows_are_cut_and_what_ends_them_stays(make):
    draw = random.Random(5)
    whole = [[*draw.choices(range(1, 9), k=draw.randint(1, 12)), draw.choice([3, 99])] for _ in range(200)]
    rows = make(whole).cut(5, frozenset([99]))
    expected = [ids if len(ids) <= 5 else [*ids[:4], 99] if ids[-1] == 99 else ids[:5] for ids in whole]
    assert list(rows) == expected == [rows[i] for i in range(200)]
    assert row_lengths(rows).tolist() == [*map(len, expected)]
    groups = np.unique(rows.hashes(), return_inverse=True)[1]
    assert len(set(groups)) == len(set(map(tuple, expected)))
    assert all((groups[i] == groups[j]) == (expected[i] == expected[j]) for i in range(90) for j in range(90))


def test_rows_of_several_kinds_take_turns(make):
    draw = random.Random(7)
    ids, others = ([[draw.randint(0, 9) for _ in range(draw.randint(0, 5))] for _ in range(83)] for _ in range(2))
    rows = make(row for pair in zip(ids, others, strict=True) for row in pair)
    one, other = rows.column(0, 2), rows.column(1, 2, below=-100)
    wanted = [[number - 1 if number else -100 for number in row] for row in others]
    assert one == ids and other == wanted and len(one) == len(other) == 83
    assert one[82] == one[-1] == ids[82] and other[3:5] == wanted[3:5]
    assert row_lengths(one).tolist() == [*map(len, ids)] and other.lengths.tolist() == [*map(len, others)]
    groups = np.unique(row_hashes(one), return_inverse=True)[1]
    assert all((groups[i] == groups[j]) == (ids[i] == ids[j]) for i in range(83) for j in range(83))
    with pytest.raises(IndexError):
        one[83]


def test_some_rows_are_read_as_all_are(make):
    draw = random.Random(3)
    whole = [[*draw.choices(range(1, 9), k=draw.randint(0, 12)), draw.choice([3, 99])] for _ in range(97)]
    rows = make(whole).cut(5, frozenset([99]))
    expected = list(rows)
    for chosen in (slice(0, None, 2), slice(1, None, 2), slice(7), slice(0, 0), np.array([3, 4, 50, 96])):
        numbers = np.arange(97)[chosen]
        part = rows.part(chosen)
        assert list(part) == [part[i] for i in range(len(part))] == [expected[i] for i in numbers]
        assert part.hashes().tolist() == rows.hashes()[numbers].tolist()
        assert part.lengths.tolist() == rows.lengths[numbers].tolist()


def test_rows_without_a_name_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    monkeypatch.setattr(encoded, "IN_MEMORY", 0)
    one, other = unnamed_rows(ROWS, 100_000), unnamed_rows(ROWS[::-1], 100_000)
    assert list(one) == ROWS == list(other)[::-1] and not list(tmp_path.iterdir())


def test_a_feed_of_them_gives_the_same_batches(make):
    rows = [row or [0] for row in ROWS]
    parts = (Examples(part, [0, 1, 0, 1], TargetKind.ROW) for part in (rows, make(rows)))
    one, other = (RowBatches(part, part, 8, seed=3) for part in parts)
    position = Position()
    for _ in range(5):
        (batch, after), (same, _) = one.next(position), other.next(position)
        assert batch.ids.equal(same.ids) and batch.targets.equal(same.targets)
        position = after


def test_a_file_is_used_again_and_a_damaged_one_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(encoded, "IN_MEMORY", 1)
    given = {"vocab_size": 100_000, "key": "k", "directory": tmp_path}
    assert encoded_rows(ROWS, **given) == ROWS
    assert encoded_rows(iter(()), **given) == ROWS  # not read
    for name in ("k.lengths", "k.tokens"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.warns(UserWarning, match="damaged"):
            assert encoded_rows(ROWS, **given) == ROWS
        assert encoded_rows(iter(()), **given) == ROWS
    with pytest.raises(ValueError, match="vocabulary has 7"):
        encoded_rows([[8]], vocab_size=7, key="other", directory=tmp_path)
