"""The gate of a feed-forward layer: its own gradient against the formula's and torch's."""

import pytest
import torch

from headway.nn.kernels.closed_form import SiluGate, silu_gate_oracle
from headway.nn.kernels.dispatch import gated


def test_gradient_in_closed_form():
    torch.manual_seed(0)
    x = torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(SiluGate.apply, (x,))


@pytest.mark.parametrize("grad", [True, False])
def test_equals_the_oracle_in_values_and_gradients(grad):
    torch.manual_seed(0)
    start, found = torch.randn(3, 5, 8), []
    for way in (lambda x: gated(x, "silu"), silu_gate_oracle):
        x = start.clone().requires_grad_()
        with torch.set_grad_enabled(grad):
            y = way(x)
        if grad:
            (y * torch.arange(4)).sum().backward()
        found.append([y.detach(), *([x.grad] if grad else [])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_bfloat16_equals_the_formula_within_its_precision():
    x = torch.randn(5, 8).bfloat16().requires_grad_()
    found = gated(x, "silu")
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), silu_gate_oracle(x.float()), atol=2 / 128, rtol=2 / 128)


def test_other_activations_gate_too():
    x = torch.randn(5, 8)
    torch.testing.assert_close(gated(x, "gelu"), torch.nn.functional.gelu(x[:, :4]) * x[:, 4:])
