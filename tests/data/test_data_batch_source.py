"""What is trained on when: every example once an epoch, in an order that a position alone decides."""

from collections import Counter

import numpy as np
import pytest

from headway.data.batches.batch_source import Position, RowBatches, TextBatches
from headway.data.batches.batching import Examples, TargetKind
from headway.errors import InputError

LENGTHS = [3, 11, 2, 7, 5, 5, 13, 1, 4, 6, 23, 9, 2]


def row_batch_source(**options: object) -> RowBatches:
    train = [[i + 5] * n for i, n in enumerate(LENGTHS)]
    held_out = [[i + 5] * n for i, n in enumerate(LENGTHS[:7])]
    parts = (Examples(rows, list(range(len(rows))), TargetKind.ROW) for rows in (train, held_out))
    return RowBatches(*parts, 17, 3, **options)


def text_batch_source() -> TextBatches:
    return TextBatches(np.arange(211, dtype=np.uint16), np.arange(500, 547, dtype=np.uint16), 7, 17, 3)


def epochs(batch_source: RowBatches, n: int) -> list[list[int]]:
    """The targets of each epoch in the order in which they come."""
    found: list[list[int]] = [[] for _ in range(n + 1)]
    position = Position()
    while position.epoch < n:
        batch, after = batch_source.next(position)
        found[position.epoch] += batch.targets.tolist()
        position = after
    assert position == Position(n, 0)
    return found[:n]


@pytest.mark.parametrize("options", [{}, {"max_examples": 2}])
def test_rows_come_once_an_epoch_and_in_another_order_each_time(options: dict):
    found = epochs(row_batch_source(**options), 7)
    assert all(sorted(order) == list(range(13)) for order in found)
    assert len({tuple(order) for order in found}) == 7


def test_rows_keep_their_target_and_their_length():
    batch_source, position = row_batch_source(), Position()
    while position.epoch < 1:
        batch, position = batch_source.next(position)
        assert batch.ids.numel() <= 17 or len(batch.targets) == 1
        for row, target in enumerate(batch.targets.tolist()):
            mask = batch.mask[row] if batch.mask is not None else batch.ids[row] > 0
            assert batch.ids[row][mask].tolist() == [target + 5] * LENGTHS[target]


def test_windows_come_once_an_epoch():
    batch_source, position, found = text_batch_source(), Position(), Counter[int]()
    starts = set()
    for _ in range(97):
        before = position
        batch, position = batch_source.next(position)
        assert (batch.targets == batch.ids + 1).all() and batch.ids.shape == (2, 7)
        for row in batch.ids[:, 0].tolist():
            found[row] += 1
            starts.add((before.epoch, row))
    windows = batch_source.windows
    for epoch in range(position.epoch):
        order = windows.starts(Position(epoch), windows.count(epoch))[0]
        assert set(order) <= {row for _, row in starts}
    assert sum(found.values()) == 2 * 97
    part = position.consumed / windows.count(position.epoch)
    assert batch_source.epochs(position) == pytest.approx(position.epoch + part)


@pytest.mark.parametrize("make", [row_batch_source, text_batch_source])
def test_a_new_feed_goes_on_at_any_position_as_the_old_one_would(make):
    batch_source, position, batches = make(), Position(), []
    for _ in range(41):
        batch, after = batch_source.next(position)
        batches.append((position, batch))
        position = after
    for position, batch in batches[::-3]:
        again, _ = make().next(position)
        assert again.ids.tolist() == batch.ids.tolist() and again.targets.tolist() == batch.targets.tolist()


def test_a_position_of_other_data_is_refused():
    with pytest.raises(ValueError, match="no batch begins at example 12"):
        row_batch_source().next(Position(0, 12))


@pytest.mark.parametrize("make", [row_batch_source, text_batch_source])
def test_validation_has_every_target_once_and_always_in_the_same_order(make):
    batch_source = make()
    runs = [[batch.targets.flatten().tolist() for batch in batch_source.validation()] for _ in range(2)]
    assert runs[0] == runs[1] and len(runs[0]) == batch_source.validation_batches()
    expected = list(range(7)) if isinstance(batch_source, RowBatches) else list(range(501, 547))
    assert sorted(target for batch in runs[0] for target in batch) == expected


@pytest.mark.parametrize(("train", "held_out"), [(7, 47), (211, 1)])
def test_too_little_text_is_refused_at_once(train: int, held_out: int):
    with pytest.raises(InputError, match="token"):
        TextBatches(np.arange(train, dtype=np.uint16), np.arange(held_out, dtype=np.uint16), 7, 17, 3)
