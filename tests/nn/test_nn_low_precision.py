"""Layers of lower precision give what float32 gives, as near as their numbers can be."""

import pytest
import torch
from torch import nn

from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder, Encoder
from headway.nn import low_precision
from headway.nn.linear import Linear
from headway.nn.low_precision import (
    FEW_ROWS,
    GROUP,
    BFloat16Linear,
    Int4Linear,
    Int8DynamicLinear,
    Int8Linear,
    LowPrecisionEmbedding,
    int4_groups,
    int8_rows,
    lower,
    takes_int4,
)

pytestmark = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bfloat16 on this processor"
)
NEAR = {"bfloat16": 0.01, "int8": 0.02, "int4": 0.2}
"""The greatest difference over the greatest value, of layers and of models of two blocks."""


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max())


def test_int8_is_off_by_half_a_step_at_most():
    torch.manual_seed(1)
    weight = torch.randn(13, 29) * torch.logspace(-3, 3, 13)[:, None]
    numbers, scale = int8_rows(weight)
    assert numbers.dtype == torch.int8 and int(numbers.abs().max()) == 127
    assert bool(((numbers * scale[:, None] - weight).abs() <= 0.51 * scale[:, None]).all())


def test_a_row_of_zeros_stays_zeros():
    numbers, scale = int8_rows(torch.zeros(3, 5))
    assert not numbers.any() and bool(scale.isfinite().all())
    numbers, scales = int4_groups(torch.zeros(64, GROUP))
    assert (
        bool(scales.isfinite().all())
        and float(((numbers - 8) * scales[0, :, :1] + scales[0, :, 1:]).abs().max()) < 1e-6
    )


def test_int4_is_off_by_half_a_step_of_its_group_at_most():
    torch.manual_seed(1)
    weight = torch.randn(64, 3 * GROUP) + torch.arange(3 * GROUP) // GROUP
    numbers, scales = int4_groups(weight)  # (O, I), (I / GROUP, O, 2)
    assert int(numbers.min()) == 0 and int(numbers.max()) == 15
    scale, zero = (part.t().repeat_interleave(GROUP, dim=1) for part in scales.unbind(dim=-1))
    assert bool((((numbers - 8) * scale + zero - weight).abs() <= 0.6 * scale).all())


@pytest.mark.parametrize("precision", NEAR)
@pytest.mark.parametrize("rows", [(1,), (FEW_ROWS,), (FEW_ROWS + 1,), (3, 7)])
@pytest.mark.parametrize("activation", [None, "gelu_tanh", "relu2"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_gives_nearly_the_same(precision, rows, activation, bias):
    torch.manual_seed(2)
    layer = Linear(96, 128, bias=bias)
    holder = nn.ModuleList([layer])
    lower(holder, precision)
    x = torch.randn(*rows, 96)
    with torch.no_grad():
        found, expected = holder[0](x, activation), layer(x, activation)
    assert found.dtype == torch.float32 and found.shape == expected.shape
    assert apart(found, expected) < NEAR[precision]


@pytest.mark.parametrize("activation", [None, "gelu_tanh"])
@pytest.mark.parametrize("bias", [True, False])
def test_int8_without_its_instructions_gives_nearly_the_same(activation, bias, monkeypatch):
    monkeypatch.setattr(low_precision, "int8_is_usable", lambda: False)
    torch.manual_seed(2)
    layer, x = Linear(96, 128, bias=bias), torch.randn(5, 96)
    holder = nn.ModuleList([layer])
    lower(holder, "int8")
    assert type(holder[0]) is Int8Linear
    with torch.no_grad():
        assert apart(holder[0](x, activation), layer(x, activation)) < NEAR["int8"]


def test_which_layer_takes_the_place():
    def lowered(precision: str, *shape: int) -> type:
        holder = nn.ModuleList([nn.Linear(*shape)])
        lower(holder, precision)
        return type(holder[0])

    in_int8 = Int8DynamicLinear if low_precision.int8_is_usable() else Int8Linear
    assert lowered("bfloat16", 96, 128) is BFloat16Linear and lowered("int8", 96, 128) is in_int8
    assert lowered("int4", 96, 128) is Int4Linear
    assert lowered("int4", 96, 100) is in_int8 and lowered("int4", 90, 128) is in_int8
    assert lowered("int8", 96, 3) is nn.Linear, "a classifier's last layer stays exact"
    assert takes_int4(torch.empty(128, 96)) and not takes_int4(torch.empty(96, 90))


@pytest.mark.parametrize("precision", NEAR)
@pytest.mark.parametrize("tied", [True, False])
def test_models_give_nearly_the_same(precision, tied, monkeypatch):
    monkeypatch.setattr(low_precision, "SMALLEST_TABLE", 0)
    torch.manual_seed(3)
    config = TransformerConfig(192, d_model=64, n_layers=2, n_heads=4, max_length=32, tied=tied)
    ids = torch.randint(192, (3, 11))
    for kind in (Decoder, Encoder):
        model = kind(config).eval()
        with torch.no_grad():
            before = model(ids)
            lower(model, precision)
            after = model(ids)
        assert 0 < apart(after, before) < 3 * NEAR[precision]
        assert isinstance(model.stack.embedding.tokens, LowPrecisionEmbedding)


def test_a_tied_table_is_one_tensor_in_int8(monkeypatch):
    """Where oneDNN does not multiply whole numbers fast; where it does, it has the matrix in a layout of its own."""
    monkeypatch.setattr(low_precision, "SMALLEST_TABLE", 0)
    monkeypatch.setattr("headway.nn.low_precision.int8_is_usable", lambda: False)
    model = Decoder(TransformerConfig(192, d_model=64, n_layers=1, n_heads=4, max_length=32, tied=True))
    lower(model, "int8")
    assert model.head.matrix.weight.data_ptr() == model.stack.embedding.tokens.weight.data_ptr()


def test_small_tables_stay():
    model = Decoder(TransformerConfig(192, d_model=64, n_layers=1, n_heads=4, max_length=32, tied=False))
    lower(model, "int8")
    assert type(model.stack.embedding.tokens) is nn.Embedding
