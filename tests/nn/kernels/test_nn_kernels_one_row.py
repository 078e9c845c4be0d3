"""The product of one row by an embedding bag equals torch's own, and is chosen only where it is meant to be."""

import pytest
import torch
import torch.nn.functional as F

from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.nn import low_precision
from headway.nn.kernels import products as kernel
from headway.nn.kernels.dispatch import is_one_row, linear
from headway.nn.kernels.products import products_by
from headway.nn.low_precision import Int8DynamicLinear, int8_rows
from headway.runtime.precision import prepare

LARGE = 520, 512


def by_columns(weight):
    return weight.t().contiguous().t()


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize(("outputs", "inputs"), [(520, 512), (1, 7), (33, 2), (7, 1), (1000, 129)])
def test_it_equals_torchs_product(threads, outputs, inputs):
    torch.manual_seed(0)
    x, weight = torch.randn(1, 1, inputs), torch.randn(outputs, inputs)
    found = kernel.one_row(x, by_columns(weight))
    assert found.shape == (1, 1, outputs)
    torch.testing.assert_close(found, F.linear(x.double(), weight.double()).float(), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("outputs", "inputs"), [(520, 512), (1, 7), (33, 2), (7, 1)])
def test_bytes_stand_for_the_numbers_that_they_were_made_from(threads, outputs, inputs):
    torch.manual_seed(0)
    numbers = torch.randint(-128, 128, (outputs, inputs), dtype=torch.int8)
    table = kernel.as_table(numbers.t())
    assert table.dtype == torch.uint8 and table.shape == (inputs, outputs + 8)
    for place in {0, inputs // 2, inputs - 1}:
        one = torch.zeros(1, inputs)
        one[0, place] = 1.0
        assert torch.equal(kernel.one_row_of_bytes(one, table)[0], numbers[:, place].float())
    x = torch.randn(1, inputs)
    torch.testing.assert_close(kernel.one_row_of_bytes(x, table), x @ numbers.float().t(), atol=1e-2, rtol=1e-5)


@torch.no_grad()
def test_when_it_is_chosen():
    torch.manual_seed(0)
    x, weight = torch.randn(1, LARGE[1]), by_columns(torch.randn(LARGE))
    assert kernel.has_embedding_bags()
    assert is_one_row(x, weight) and is_one_row(x[None], weight)
    assert not is_one_row(torch.randn(2, LARGE[1]), weight), "several rows"
    assert not is_one_row(x, weight.contiguous()), "by rows"
    assert not is_one_row(x.double(), weight.double()) and not is_one_row(x.bfloat16(), weight.bfloat16())
    assert not is_one_row(x[:, :8], weight[:, :8]), "a small matrix"
    assert not is_one_row(torch.randn(0, LARGE[1]), weight), "no row"
    with torch.enable_grad():
        assert not is_one_row(x, weight), "with gradients"
    bias = torch.randn(LARGE[0])
    expected = F.gelu(F.linear(x, weight, bias))
    torch.testing.assert_close(linear(x, weight, bias, "gelu"), expected, atol=1e-4, rtol=1e-5)


def decoder(tied=True):
    torch.manual_seed(0)
    return Decoder(TransformerConfig(1030, d_model=512, n_layers=2, n_heads=8, d_ff=1024, tied=tied)).eval()


@torch.no_grad()
@pytest.mark.parametrize("tied", [True, False])
def test_a_decoder_laid_out_by_columns_answers_as_before(tied, monkeypatch):
    """One token after a prompt; a tied matrix is read by rows as a table of vectors, and by columns as a matrix."""
    model, ids = decoder(tied), torch.tensor([[5, 3, 1029, 0]])
    expected, weights = model(ids), {name: one.clone() for name, one in model.state_dict().items()}
    rows = []
    own = kernel.one_row
    monkeypatch.setattr("headway.nn.kernels.dispatch.one_row", lambda x, w: rows.append(w.shape) or own(x, w))
    with products_by("onednn"):
        prepare(model, "float32")
        state = model.new_state()
        model(ids[:, :3], state=state)
        found = model(ids[:, 3:], state=state)
    assert (1030, 512) in rows and len(rows) == 2 * 4 + 1
    torch.testing.assert_close(found[:, -1], expected[:, -1], atol=1e-4, rtol=1e-4)
    assert all(torch.equal(one, weights[name]) for name, one in model.state_dict().items())


@torch.no_grad()
@pytest.mark.skipif(not low_precision.int8_is_usable(), reason="this processor has no exact products of whole numbers")
@pytest.mark.parametrize("biased", [True, False])
def test_one_row_of_an_int8_layer(biased):
    """One row is not rounded, so that it is nearer to the exact product than a row among others."""
    torch.manual_seed(0)
    weight, bias = torch.randn(LARGE), torch.randn(LARGE[0]) if biased else None
    numbers, scale = int8_rows(weight)
    layer, x = Int8DynamicLinear(numbers, scale, bias), torch.randn(2, LARGE[1])
    exact = F.linear(x, numbers * scale[:, None], bias)
    before = layer.laid_out_bytes
    alone, among = layer(x[:1, None], "gelu")[:, 0], layer(x, "gelu")[:1]
    torch.testing.assert_close(alone, F.gelu(exact[:1]), atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(among, F.gelu(exact[:1]), atol=0.5, rtol=0.02)
    assert layer.laid_out_bytes == before + LARGE[1] * (LARGE[0] + 8)
