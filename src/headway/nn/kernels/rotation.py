"""Rotation of pairs of entries (Su et al. 2021, rotary positions) with the gradient in closed form.

Letters: R pairs; x has the first entries of all pairs, then the second ones: (..., 2 R).
"""

import torch
from torch import Tensor


class Turn(torch.autograd.Function):
    """A rotation; its gradient is the inverse rotation, so ``x`` need not be stored."""

    @staticmethod
    def forward(ctx, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turn(grads[0], cos, -sin), None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = cos.shape[-1]
    first, second = x[..., :half], x[..., half:]
    out = torch.empty_like(x)
    torch.mul(first, cos, out=out[..., :half]).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=out[..., half:]).addcmul_(first, sin)
    return out


def turn_oracle(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(a cos - b sin, b cos + a sin) of each pair (a, b), by the formula."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
