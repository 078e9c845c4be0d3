"""Root-mean-square normalisation (Zhang and Sennrich 2019) with its gradient in closed form."""

import torch
from torch import Tensor


class Normalise(torch.autograd.Function):
    """γ x / √(mean of x² + ε), or without γ, with its gradient in closed form; as precise as ``x``.

    On a CPU torch composes ``rms_norm`` of five operations and stores the inputs of each; this reads and writes half as
    much.  With r = 1/√(mean x² + ε), y = r x and h = γ g, the gradient of x is r (h - y mean(h y)), and that of γ the
    sum of g y over all vectors that it multiplies.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        exact = torch.promote_types(x.dtype, torch.float32)
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=exact)  # (..., 1)
        scale = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        y = x * scale.to(x.dtype)
        ctx.save_for_backward(y, scale, weight)
        return y if weight is None else y * weight.to(y.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (g,) = grads
        y, scale, weight = ctx.saved_tensors
        of_weight = None
        if weight is not None:
            if ctx.needs_input_grad[1]:
                each, leading = g * y, tuple(range(g.dim() - weight.dim()))
                of_weight = each.sum(dim=leading, dtype=weight.dtype) if leading else each.to(weight.dtype)
            g = g * weight.to(g.dtype)
        along = torch.linalg.vecdot(g, y).unsqueeze(-1) / y.shape[-1]  # (..., 1)
        return torch.addcmul(g, y, along, value=-1).mul_(scale.to(g.dtype)), of_weight, None


def rms_norm_oracle(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """γ x / √(mean of x² + ε) over the last axis, by the formula."""
    y = x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return y if weight is None else y * weight
