"""The product for few rows equals torch's own, and is chosen only where it is meant to be."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from headway.generation.sampling import Sampling
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.nn.kernels import products as kernel
from headway.nn.kernels.dispatch import linear
from headway.nn.kernels.products import products_by
from headway.nn.linear import Linear
from headway.runtime.runtime import Runtime

WIDE = 1024, 256


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def calls(monkeypatch):
    """Counts how often oneDNN's product is called."""
    found = []
    own = kernel.onednn_linear

    def counted(*given):
        found.append(given[0].shape)
        return own(*given)

    monkeypatch.setattr("headway.nn.kernels.dispatch.onednn_linear", counted)
    with products_by("torch"):
        yield found


@pytest.mark.skipif(not kernel.has_onednn(), reason="this torch has no product of oneDNN")
@pytest.mark.parametrize("shape", [(256,), (1, 256), (32, 256), (3, 7, 256), (8, 1, 256)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_torch_s(shape, bias, two_threads, calls):
    torch.manual_seed(1)
    x, weight = torch.randn(shape), torch.randn(WIDE)
    added = torch.randn(WIDE[0]) if bias else None
    with torch.no_grad():
        found = linear(x, weight, added)
    assert len(calls) == 1 and found.shape == (*shape[:-1], WIDE[0])
    torch.testing.assert_close(found, F.linear(x, weight, added), rtol=1e-5, atol=1e-4)


@pytest.mark.skipif(not kernel.has_onednn(), reason="this torch has no product of oneDNN")
def test_strided_rows_are_read_as_they_are(two_threads, calls):
    x, weight = torch.randn(16, 512)[::2, 128:384], torch.randn(256, 1024).t()
    with torch.no_grad():
        torch.testing.assert_close(linear(x, weight), F.linear(x, weight), rtol=1e-5, atol=1e-4)
    assert len(calls) == 1


def test_elsewhere_it_is_torch_s_own_to_the_last_bit(two_threads, calls):
    weight = torch.randn(WIDE)
    cases = [
        (torch.randn(33, 256), weight),  # many rows
        (torch.randn(1, 256), weight[:256]),  # a small matrix
        (torch.randn(1, 256).double(), weight.double()),
        (torch.randn(1, 256).bfloat16(), weight.bfloat16()),
    ]
    with torch.no_grad():
        for x, matrix in cases:
            assert torch.equal(linear(x, matrix), F.linear(x, matrix))
        assert linear(torch.empty(0, 256), weight).shape == (0, WIDE[0])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert linear(torch.randn(1, 256), weight).dtype == torch.bfloat16
        assert linear(torch.empty(1, 256, device="meta"), weight.to("meta")).device.type == "meta"
    x = torch.randn(1, 256, requires_grad=True)
    linear(x, weight).sum().backward()
    torch.testing.assert_close(x.grad, weight.sum(0)[None], rtol=1e-4, atol=1e-4)
    torch.set_num_threads(1)
    with torch.no_grad():
        linear(torch.randn(1, 256), weight)
    assert not calls


def test_a_torch_whose_operation_has_changed_gets_its_own_product(monkeypatch):
    def changed(*given):
        raise TypeError("unexpected arguments")

    def wrong(x, weight, bias):
        return F.linear(x, weight, bias) * 1.001

    for other in (changed, wrong):
        monkeypatch.setattr(kernel, "onednn_linear", other)
        assert not kernel.has_onednn.__wrapped__()


def test_the_check_is_made_on_the_cpu_whatever_the_default_device():
    with torch.device("meta"):
        assert kernel.has_onednn.__wrapped__() == kernel.has_onednn()


def test_the_layer_is_one_of_torch_s():
    layer, theirs = Linear(6, 4), nn.Linear(6, 4)
    theirs.load_state_dict(layer.state_dict())
    assert isinstance(layer, nn.Linear)
    assert torch.equal(layer(torch.ones(2, 6)), theirs(torch.ones(2, 6)))


@pytest.mark.skipif(not kernel.has_onednn(), reason="this torch has no product of oneDNN")
@pytest.mark.parametrize("rows", [1, 3])
def test_greedy_texts_are_the_same_with_either_product(rows, two_threads, calls, monkeypatch):
    torch.manual_seed(5)
    runtime = Runtime(Decoder(TransformerConfig(600, d_model=512, n_layers=2, n_heads=4, max_length=64)).eval())
    prompts = [[1 + row, 2, 3] for row in range(rows)]

    def texts():
        return list(runtime.write(prompts, Sampling(temperature=0.0), max_tokens=24))

    by_few_rows = texts()
    assert len(calls) > 24
    monkeypatch.setattr("headway.nn.kernels.dispatch.is_onednn", lambda x, weight: False)
    assert texts() == by_few_rows
