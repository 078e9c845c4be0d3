"""The rotation and its gradient in closed form, against the oracle."""

import torch

from headway.nn.kernels.closed_form import apply_rope_oracle
from headway.nn.kernels.dispatch import apply_rope


def angles(dtype=torch.float32):
    at = torch.randn(5, 3, dtype=dtype)
    return at.cos(), at.sin()


def test_gradient_in_closed_form():
    torch.manual_seed(0)
    x, by = torch.randn(3, 2, 5, 6, dtype=torch.float64, requires_grad=True), angles(torch.float64)
    assert torch.autograd.gradcheck(lambda x: apply_rope(x, *by), (x,))


def test_equals_the_oracle_in_values_and_gradients():
    torch.manual_seed(0)
    start, by, upstream, found = torch.randn(3, 2, 5, 6), angles(), torch.randn(3, 2, 5, 6), []
    for way in (apply_rope, apply_rope_oracle):
        x = start.clone().requires_grad_()
        y = way(x, *by)
        y.backward(upstream)
        found.append((y.detach(), x.grad))
    torch.testing.assert_close(*found, atol=1e-6, rtol=0)


def test_bfloat16_equals_the_oracle_within_its_precision():
    torch.manual_seed(0)
    x, by = torch.randn(3, 2, 5, 6).bfloat16(), [part.bfloat16() for part in angles()]
    expected = apply_rope_oracle(x.float(), *(part.float() for part in by))
    torch.testing.assert_close(apply_rope(x, *by).float(), expected, atol=4 / 256, rtol=2 / 256)
