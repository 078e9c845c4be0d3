"""Every token is seen once an epoch, every target is evaluated once, every index is in one batch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.batches.batch_source import Position, Windows, evaluation_windows
from headway.data.batches.batching import Batch, TargetKind, length_batches, longest_batch, pad
from headway.errors import InputError

QUICK = settings(max_examples=80, deadline=None)


def order_of(windows: Windows, epoch: int) -> np.ndarray:
    """The starts of all windows of an epoch."""
    return windows.starts(Position(epoch), windows.count(epoch))[0]


@QUICK
@given(n=st.integers(2, 331), length=st.integers(1, 37), seed=st.integers(0, 2**31), epoch=st.integers(0, 5))
def test_windows_cover_an_epoch_without_overlap(n, length, seed, epoch):
    tokens = np.arange(n, dtype=np.uint16)
    if n < length + 1:
        with pytest.raises(InputError, match=f"{n} tokens.*{length + 1}"):
            Windows(tokens, length, seed)
        return
    order = order_of(Windows(tokens, length, seed), epoch)
    assert order.dtype == np.int64
    starts = np.sort(order)
    assert np.all(np.diff(starts) == length)
    assert 0 <= starts[0] < length and starts[-1] + length + 1 <= n < starts[-1] + 2 * length + 1
    windows = Windows(tokens, length, seed)
    order_of(windows, epoch + 1)
    assert np.array_equal(order_of(windows, epoch), order)


@QUICK
@given(n=st.integers(23, 331), size=st.integers(1, 29), seed=st.integers(0, 99))
def test_take_uses_every_window_of_each_epoch_once(n, size, seed):
    windows = Windows(np.arange(n, dtype=np.uint16), 11, seed)
    expected = np.concatenate([order_of(windows, epoch) for epoch in range(40)])[: 5 * size]
    position, starts, positions = Position(), [], []
    for _ in range(5):
        batch, position = windows.take(position, size)
        assert batch.shape == (size, 12) and batch.dtype == np.int64
        assert np.all(np.diff(batch, axis=1) == 1)
        starts.extend(batch[:, 0])
        positions.append(position)
    if len(expected) == 5 * size:
        assert np.array_equal(starts, expected)
    resumed, _ = Windows(np.arange(n, dtype=np.uint16), 11, seed).take(positions[1], size)
    assert np.array_equal(resumed[:, 0], starts[2 * size : 3 * size])


def test_epochs_have_orders_of_their_own():
    windows = Windows(np.arange(211), 7, 3)
    full = [windows.take(Position(2, index), 13)[0] for index in range(0, windows.count(2), 13)]
    assert np.array_equal(np.concatenate(full)[: windows.count(2), 0], order_of(windows, 2))
    assert not np.array_equal(order_of(windows, 0), order_of(windows, 1))
    assert len({int(order_of(windows, epoch).min()) for epoch in range(31)}) > 3
    with pytest.raises(ValueError, match="size"):
        windows.take(Position(), 0)


@QUICK
@given(n=st.integers(2, 211), length=st.integers(1, 41))
def test_evaluation_covers_every_target_once(n, length):
    tokens = np.arange(n, dtype=np.uint16)
    pairs = list(evaluation_windows(tokens, length))
    assert np.concatenate([targets for _, targets in pairs]).tolist() == list(range(1, n))
    assert all(np.array_equal(inputs + 1, targets) and inputs.dtype == np.int64 for inputs, targets in pairs)
    assert all(len(inputs) == length for inputs, _ in pairs[:-1])


def test_too_short_to_evaluate():
    for n in (0, 1):
        with pytest.raises(InputError, match=f"{n} token.*--validation"):
            evaluation_windows(np.arange(n), 3)


LENGTHS = st.lists(st.integers(0, 67), max_size=101)


@QUICK
@given(lengths=LENGTHS, budget=st.integers(1, 211), most=st.none() | st.integers(1, 13), seed=st.integers(0, 99))
def test_every_index_is_in_one_batch(lengths, budget, most, seed):
    batches = length_batches(lengths, budget, seed, 2, max_examples=most)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
        assert len(batch) == 1 or most is None or len(batch) <= most
    again = length_batches(np.array(lengths), budget, seed, 2, max_examples=most)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))


def test_batches_pad_little_and_change_with_the_epoch():
    lengths = np.random.default_rng(5).integers(3, 101, size=2003)
    batches = length_batches(lengths, 1024, 1, 0)
    places = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    assert int(lengths.sum()) > 0.97 * places
    firsts = [int(length_batches(lengths, 1024, 1, epoch)[0][0]) for epoch in range(5)]
    assert len(set(firsts)) > 1
    sizes = [int(lengths[batch].max()) for batch in batches]
    assert sizes != sorted(sizes)
    with pytest.raises(ValueError, match="1 or more"):
        length_batches([1], 0, 1, 0)


def test_pad_and_batch():
    ids, mask = pad([[5, 6, 7], [], [8]], pad_id=2)
    assert ids.tolist() == [[5, 6, 7], [2, 2, 2], [8, 2, 2]] and ids.dtype == torch.int64
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    batch = Batch({"ids": ids}, mask, torch.tensor([0, 1, 0]), TargetKind.ROW).to("cpu")
    assert batch.tokens == 4
    assert Batch({"ids": ids}, None, ids, TargetKind.TOKEN).to("cpu").tokens == 9
    assert pad([[]])[0].shape == (1, 1)
    with pytest.raises(ValueError, match="no sequences"):
        pad([])


@QUICK
@given(
    lengths=st.lists(st.tuples(st.integers(0, 37), st.integers(1, 23)), min_size=1, max_size=61),
    tokens=st.integers(1, 211),
    most=st.none() | st.integers(1, 7),
)
def test_the_longest_batch_is_full_of_the_longest(lengths, tokens, most):
    sizes, others = (np.array(side) for side in zip(*lengths, strict=True))
    for second in (None, others):
        both = np.maximum(sizes, 1) + (0 if second is None else second)
        index = longest_batch(sizes, tokens, second=second, max_examples=most)

        def padded(index, second=second):
            widest = 0 if second is None else second[index].max()
            return len(index) * (max(1, sizes[index].max()) + widest)

        assert len(set(index.tolist())) == len(index) and both[index].min() >= np.delete(both, index).max(initial=0)
        assert len(index) == 1 or padded(index) <= tokens
        batches = length_batches(sizes, tokens, 3, 0, second=second, max_examples=most)
        if second is None:
            widest = int(both.max())
            assert len(index) in (most, len(sizes)) or padded(index) > min(tokens, max(map(padded, batches))) - widest
