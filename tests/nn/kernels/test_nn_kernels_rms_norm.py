"""RMSNorm's own gradient against its oracle's and torch's."""

import pytest
import torch
import torch.nn.functional as F

from headway.nn.kernels.closed_form import Normalise, rms_norm_oracle
from headway.nn.kernels.dispatch import rms_norm

EPS = 0.5  # large, so that its place in the formula shows


def test_gradient_in_closed_form():
    torch.manual_seed(0)
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    for shape in ((7,), (5, 7)):
        weight = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, w: Normalise.apply(x, w, EPS), (x, weight))
    assert torch.autograd.gradcheck(lambda x: Normalise.apply(x, None, EPS), (x,))


@pytest.mark.parametrize("scale", [1.0, 1e-3, 0.0])
def test_equals_torch(scale):
    torch.manual_seed(0)
    ours = (torch.randn(5, 7) * scale).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    found, expected = Normalise.apply(ours, None, 1e-5), F.rms_norm(theirs, (7,), None, 1e-5)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    upstream = torch.randn(5, 7)
    found.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("weights", [(7,), (5, 7), None])
@pytest.mark.parametrize("grad", [True, False])
def test_equals_the_oracle_in_values_and_gradients(weights, grad):
    torch.manual_seed(0)
    start = torch.randn(3, 5, 7), None if weights is None else torch.randn(weights)
    found = []
    for way in (rms_norm, rms_norm_oracle):
        given = [None if part is None else part.clone().requires_grad_() for part in start]
        with torch.set_grad_enabled(grad):
            y = way(*given, EPS)
        if grad:
            (y.transpose(0, 1) * torch.arange(7)).sin().sum().backward()  # a gradient in another order
        found.append([y.detach(), *(part.grad for part in given if part is not None and grad)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_bfloat16_equals_the_oracle_within_its_precision():
    x = torch.randn(5, 7).bfloat16().requires_grad_()
    found = rms_norm(x, None, EPS)
    assert found.dtype == torch.bfloat16 == rms_norm(x, torch.ones(7), EPS).dtype
    torch.testing.assert_close(found.float(), rms_norm_oracle(x.float(), None, EPS), atol=2 / 128, rtol=2 / 128)
