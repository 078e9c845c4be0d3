"""The key-value cache and the state: what they return, keep, reorder and refuse."""

import pytest
import torch

from headway.nn.state import KeyValueCache, State

B, G, K = 3, 2, 5


def pieces(*lengths):
    torch.manual_seed(0)
    return [(torch.randn(B, G, length, K), torch.randn(B, G, length, K)) for length in lengths]


def test_append_returns_all_so_far():
    cache, given = KeyValueCache(), pieces(7, 1, 61, 2, 101)  # past the first 16 places, and past several doublings
    for n, piece in enumerate(given, start=1):
        keys, values = cache.append(*piece)
        assert torch.equal(keys, torch.cat([k for k, _ in given[:n]], dim=2))
        assert torch.equal(values, torch.cat([v for _, v in given[:n]], dim=2))
        assert cache.length == keys.shape[2]
    assert torch.equal(cache.read()[0], keys)


def test_room_doubles_so_that_few_copies_are_made():
    cache, rooms = KeyValueCache(), []
    for piece in pieces(*[1] * 300):
        cache.append(*piece)
        rooms.append(cache._keys.shape[2])
    assert sorted(set(rooms)) == [16, 32, 64, 128, 256, 512]
    assert rooms == sorted(rooms)


def test_an_empty_cache_cannot_be_read():
    with pytest.raises(ValueError, match="the cache is empty"):
        KeyValueCache().read()


def test_reorder_repeats_and_drops_rows():
    cache, (first, second) = KeyValueCache(), pieces(7, 2)
    cache.append(*first)
    cache.reorder(torch.tensor([2, 2, 0, 1]))
    assert torch.equal(cache.read()[0], first[0][[2, 2, 0, 1]])
    cache.reorder(torch.tensor([1, 0, 3]))
    keys, _ = cache.append(*second)
    assert torch.equal(keys, torch.cat([first[0][[2, 2, 1]], second[0]], dim=2))


def test_state_mask_is_none_until_there_is_padding():
    state, (piece,) = State(1), pieces(2)
    state.extend_mask(None, B, 2, torch.device("cpu"))
    assert state.mask is None
    state.layers[0].append(*piece)
    assert state.length == 2
    state.extend_mask(torch.tensor([[True, False]] * B), B, 2, torch.device("cpu"))
    state.extend_mask(None, B, 1, torch.device("cpu"))
    assert state.mask.int().tolist() == [[1, 1, 1, 0, 1]] * B


@pytest.mark.parametrize(
    ("orders", "cached"),
    [
        ([[1, 1]], 1),  # two hypotheses of one source
        ([[0, 0, 1, 1, 2, 2], [1, 0, 3, 3, 5, 4]], 3),  # a beam of two, each changing within its source
        ([[0, 0, 1, 1, 2, 2], [0, 1, 4, 4]], 2),  # one source is finished
        ([[0, 0, 1, 1, 2, 2], [0, 2, 3]], 3),  # fewer for the first than for the second: a row of its own for each
        ([[2, 0], [1, 1, 0]], 3),
        ([[0, 0, 1, 1], []], 0),
    ],
)
def test_state_reorders_everything(orders, cached):
    state, (piece, across) = State(1), pieces(2, 7)
    state.layers[0].append(*piece)
    state.cross[0].append(*across)
    state.mask = torch.tensor([[True, True], [False, True], [True, False]])
    state.source_mask = torch.eye(3, 7).bool()
    expected = torch.arange(B)
    for order in orders:
        state.reorder(torch.tensor(order, dtype=torch.long))
        expected = expected[order]
    assert torch.equal(state.layers[0].read()[1], piece[1][expected])
    assert torch.equal(state.mask, torch.tensor([[True, True], [False, True], [True, False]])[expected])
    assert state.cross[0].rows == len(state.source_mask) == cached  # a source is kept once for those that read it
    readers = len(expected) // max(1, cached)
    assert torch.equal(state.cross[0].read()[1].repeat_interleave(readers, dim=0), across[1][expected])
    assert torch.equal(state.source_mask.repeat_interleave(readers, dim=0), torch.eye(3, 7).bool()[expected])
