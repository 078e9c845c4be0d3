"""Recurrent layers are the equations, and padding changes nothing, wherever it stands."""

from typing import Any

import pytest
import torch
from torch import Tensor

from headway.nn.baselines import CELLS, GATES, Recurrent, RecurrentState, step

B, T, D, H = 3, 7, 5, 11
KINDS = list(CELLS)


def layer(kind: Any, both: bool = False) -> Recurrent:
    torch.manual_seed(2)
    return Recurrent(kind, D, H, both=both)


def by_the_equations(one: Recurrent, x: Tensor, reverse: bool = False) -> Tensor:
    """(B, T, H) of one direction, token by token."""
    suffix = "_l0_reverse" if reverse else "_l0"
    weights = [getattr(one.core, name + suffix) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    memory = tuple(torch.zeros(len(x), H) for _ in range(2 if one.kind == "lstm" else 1))
    found = []
    places = range(x.shape[1])
    for place in reversed(places) if reverse else places:
        memory = step(one.kind, x[:, place], memory, *weights)
        found.append(memory[0])
    return torch.stack(found[::-1] if reverse else found, dim=1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernels_are_the_equations(kind: str):
    one, x = layer(kind), torch.randn(B, T, D)
    assert one.core.weight_ih_l0.shape == (GATES[kind] * H, D)
    torch.testing.assert_close(one(x)[0], by_the_equations(one, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_both_directions_stand_side_by_side(kind: str):
    one, x = layer(kind, both=True), torch.randn(B, T, D)
    found = one(x)[0]
    assert found.shape == (B, T, 2 * H)
    torch.testing.assert_close(found[..., :H], by_the_equations(one, x), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[..., H:], by_the_equations(one, x, reverse=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing_wherever_it_stands(kind: str, both: bool):
    one, x = layer(kind, both), torch.randn(B, T, D)
    mask = torch.tensor(
        [[True] * T, [False, False, True, True, True, False, False], [True, False, True, False, False, True, False]]
    )
    found, memory = one(x, mask)
    for row in range(B):
        alone, after = one(x[row][mask[row]][None])
        torch.testing.assert_close(found[row][mask[row]], alone[0], rtol=1e-5, atol=1e-6)
        for part, expected in zip(memory, after, strict=True):
            torch.testing.assert_close(part[:, row], expected[:, 0], rtol=1e-5, atol=1e-6)
    assert not found[~mask].any()


@pytest.mark.parametrize("kind", KINDS)
def test_reading_in_pieces_is_reading_at_once(kind: str):
    one, x = layer(kind), torch.randn(B, T, D)
    whole, last = one(x)
    first, memory = one(x[:, :3])
    second, memory = one(x[:, 3:], None, memory)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=1e-5, atol=1e-6)
    for part, expected in zip(memory, last, strict=True):
        torch.testing.assert_close(part, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_tokens_keeps_its_memory(kind: str):
    one, x = layer(kind), torch.randn(2, T, D)
    _, before = one(x[:, :3])
    mask = torch.tensor([[True] * 4, [False] * 4])
    _, after = one(x[:, 3:], mask, before)
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old[:, 1], new[:, 1]) and not torch.equal(old[:, 0], new[:, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_padded_rows_are_those_of_each_alone(kind: str):
    one, x = layer(kind), torch.randn(2, T, D)
    mask = torch.tensor([[True] * T, [False] * 3 + [True] * (T - 3)])
    one(x, mask)[0].square().sum().backward()
    found = {name: p.grad.clone() for name, p in one.named_parameters()}
    one.zero_grad()
    for row in range(2):
        one(x[row][mask[row]][None])[0].square().sum().backward()
    for name, p in one.named_parameters():
        torch.testing.assert_close(found[name], p.grad, rtol=1e-4, atol=1e-5)


def test_a_state_is_reordered_with_its_source():
    state = RecurrentState(2)
    state.layers = [(torch.arange(3.0).view(1, 3, 1),), None]
    state.source, state.source_mask = torch.arange(3.0).view(3, 1, 1), torch.tensor([[True], [False], [True]])
    state.reorder(torch.tensor([2, 2, 1, 0]))
    assert state.layers[0] is not None and state.layers[0][0].flatten().tolist() == [2, 2, 1, 0]
    assert state.layers[1] is None and state.source.flatten().tolist() == [2, 2, 1, 0]
    assert state.source_mask.flatten().tolist() == [True, True, False, True]


def test_an_unknown_cell_is_named():
    with pytest.raises(ValueError, match="'sru', but must be one of rnn, lstm, gru"):
        Recurrent("sru", D, H)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_every_layer_trains_below_float32_on_every_processor(kind: str):
    layer, mask = Recurrent(kind, 8, 8, both=True), torch.arange(5) < torch.tensor([[5], [2]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, _ = layer(torch.randn(2, 5, 8), mask)
    y.float().sum().backward()
    assert y.isfinite().all() and all(weight.grad is not None for weight in layer.parameters())
