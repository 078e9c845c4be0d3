"""Which library multiplies matrices: both give the same values and gradients, and the choice holds while it is set."""

import pytest
import torch
import torch.nn.functional as F

from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.nn.kernels import products
from headway.nn.kernels.dispatch import LARGE_PRODUCT, cross_entropy, is_onednn, linear
from headway.nn.kernels.products import OneDnnLinear, has_onednn, products_by

needs_onednn = pytest.mark.skipif(not has_onednn(), reason="this torch has no product of oneDNN")


def by_torch(x, weight, bias):
    return F.linear(x, weight, bias)


@needs_onednn
@pytest.mark.parametrize("shape", [(7, 19), (3, 5, 19), (19,)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_torch_s(shape, bias):
    torch.manual_seed(2)
    made = [torch.randn(shape), torch.randn(11, 19), torch.randn(11) if bias else None]
    towards = torch.randn(*shape[:-1], 11)
    found = []
    for product in (by_torch, OneDnnLinear.apply):
        given = [None if one is None else one.clone().requires_grad_() for one in made]
        y = product(*given)
        (y * towards).sum().backward()
        found.append([y, *(one.grad for one in given if one is not None)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)


@needs_onednn
@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_needs_no_gradient_gets_none(frozen):
    given = [torch.randn(4, 6), torch.randn(3, 6), torch.randn(3)]
    for place, one in enumerate(given):
        one.requires_grad_(place != frozen)
    OneDnnLinear.apply(*given).sum().backward()
    assert [one.grad is None for one in given] == [place == frozen for place in range(3)]


@needs_onednn
def test_a_gradient_that_is_one_number_repeated_is_read_right():
    x, weight = torch.randn(5, 7), torch.randn(3, 7, requires_grad=True)
    OneDnnLinear.apply(x, weight, None).sum().backward()
    torch.testing.assert_close(weight.grad, x.sum(0).expand(3, 7), rtol=1e-5, atol=1e-5)


@needs_onednn
def test_a_model_learns_the_same_by_either():
    def gradient(name):
        torch.manual_seed(3)
        model = Decoder(TransformerConfig(97, d_model=64, n_layers=2, n_heads=2, max_length=128))
        ids = torch.randint(97, (16, 128))
        with products_by(name):
            loss = cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            loss.backward()
        return [loss, *(p.grad for p in model.parameters())]

    for one, other in zip(gradient("torch"), gradient("onednn"), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)


@needs_onednn
def test_large_products_alone_are_onednn_s():
    inputs = 64
    rows, weight = torch.randn(LARGE_PRODUCT // (inputs * inputs), inputs), torch.randn(inputs, inputs)
    with products_by("onednn"):
        assert is_onednn(rows, weight) and not is_onednn(rows[1:], weight)
        assert not is_onednn(rows.bfloat16(), weight.bfloat16()) and not is_onednn(rows.double(), weight.double())
        assert not is_onednn(rows.to("meta"), weight.to("meta"))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert linear(rows, weight).dtype == torch.bfloat16
    with products_by("torch"):
        assert not is_onednn(rows, weight)


def test_the_choice_is_put_back_and_checked():
    before = products.onednn_everywhere()
    with pytest.raises(ValueError, match="one of auto, torch, onednn"), products_by("mkl"):
        pass
    with products_by("torch"):
        with pytest.raises(RuntimeError), products_by("onednn"):
            assert products.onednn_everywhere() == has_onednn()
            raise RuntimeError
        assert not products.onednn_everywhere()
    assert products.onednn_everywhere() == before


@pytest.mark.parametrize(("times", "expected"), [(1.4, "torch"), (1.6, "onednn")])
def test_a_small_gain_is_not_taken(times, expected, monkeypatch):
    monkeypatch.setattr(products, "has_onednn", lambda: True)
    monkeypatch.setattr(products, "_least", lambda given: {"torch": 1.0, "onednn": 1 / times})
    name, rates = products.faster.__wrapped__()
    assert name == expected and rates["onednn"] / rates["torch"] == pytest.approx(times)


def test_without_onednn_the_choice_is_torch_s(monkeypatch):
    monkeypatch.setattr(products, "has_onednn", lambda: False)
    assert products.faster.__wrapped__() == ("torch", {})
    with products_by("onednn"):
        assert not products.onednn_everywhere()
