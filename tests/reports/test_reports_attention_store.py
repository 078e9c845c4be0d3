"""Weights as text: read again they are what they were, within what is said, in the room there is."""

import numpy as np
import pytest

from headway.reports.attention_store import CELLS, FINENESS, largest_error, restore, store

L, H, T, S = 2, 3, 83, 71


def drawn(shape, causal=False, sharpness=2.0):
    scores = sharpness * np.random.default_rng(0).standard_normal(shape)
    if causal:
        scores = np.where(np.tri(shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def test_with_room_for_all_nothing_is_off_by_more_than_1e_5():
    maps = {"decoder": (drawn((L, H, T, T), causal=True), True), "cross": (drawn((L, H, T, S)), False)}
    found = store(maps, 10_000_000)
    for name, (weights, _) in maps.items():
        assert found[name].q == 65535 and found[name].cell == 0
        assert 0 < largest_error(found[name], weights) <= 0.5 / 65535 + 1e-7
        for layer in range(L):
            for head in range(H):
                np.testing.assert_allclose(restore(found[name], layer, head), weights[layer, head], atol=1e-5)


@pytest.mark.parametrize("room", [5_000, 16_000, 60_000])
def test_less_room_means_coarser_and_the_bound_holds(room):
    maps = {"decoder": (drawn((L, H, T, T), causal=True), True), "cross": (drawn((L, H, T, S)), False)}
    found = store(maps, room)
    assert sum(one.characters for one in found.values()) <= room
    assert sum(len(text) for one in found.values() for row in one.maps for text in row) > 0.3 * room  # and it is used
    q, cell = found["cross"].q, found["cross"].cell
    assert q in FINENESS and q < 65535 and cell >= T / CELLS
    for name, (weights, causal) in maps.items():
        assert largest_error(found[name], weights) <= 0.5 / q + 1e-9
        for head in range(H):
            shown = restore(found[name], 1, head)
            assert not causal or (np.triu(shown, 1) == 0).all()
            np.testing.assert_allclose(shown.sum(), T, rtol=0.2)  # what is rounded away does not vanish


def test_what_cannot_fit_is_not_stored():
    assert store({"self": (drawn((L, H, T, T)), False)}, 300) is None


def test_a_text_of_one_token():
    found = store({"self": (np.ones((L, H, 1, 1), np.float32), True)}, 10_000)["self"]
    assert restore(found, 1, 2).tolist() == [[1.0]]
