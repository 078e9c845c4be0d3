"""Norms against arithmetic by hand."""

import math

import pytest
import torch

from headway.nn.norm import LayerNorm, RMSNorm

X = [3.0, -1.0, 4.0]
EPS = 0.5  # large, so that its place in the formula shows


def test_layer_norm_by_hand():
    norm = LayerNorm(3, EPS)
    norm.weight.data, norm.bias.data = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 0.0, -0.5])
    mean = sum(X) / 3
    scale = 1 / math.sqrt(sum((x - mean) ** 2 for x in X) / 3 + EPS)  # the variance divides by D; ε under the root
    expected = [(x - mean) * scale * g + b for x, g, b in zip(X, (1.0, 2.0, 3.0), (0.5, 0.0, -0.5), strict=True)]
    assert norm(torch.tensor(X)).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("grad", [True, False])
def test_rms_norm_by_hand(grad):
    norm = RMSNorm(3, EPS)
    norm.weight.data = torch.tensor([1.0, 2.0, 3.0])
    scale = 1 / math.sqrt(sum(x * x for x in X) / 3 + EPS)
    expected = [x * scale * g for x, g in zip(X, (1.0, 2.0, 3.0), strict=True)]
    with torch.set_grad_enabled(grad):
        assert norm(torch.tensor(X)).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("norm", "names"), [
    (LayerNorm(7, weight=False, bias=False), []),
    (LayerNorm(7, bias=False), ["weight"]),
    (LayerNorm(7), ["weight", "bias"]),
    (RMSNorm(7), ["weight"]),
    (RMSNorm(7, weight=False), []),
])  # fmt: skip
def test_parameters_are_optional(norm, names):
    assert [name for name, _ in norm.named_parameters()] == names
