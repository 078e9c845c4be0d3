"""Operations with their gradients in closed form, each with an oracle: the same by its formula.

Rotation of pairs (Su et al. 2021), the gate of SwiGLU (Shazeer 2020), root-mean-square normalisation (Zhang and
Sennrich 2019), and cross-entropy.  Letters: R pairs, F hidden width, N places, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORED = -100
"""A target that does not count; torch uses the same number."""


class Rope(torch.autograd.Function):
    """A rotation of pairs: x has the first entries of all pairs, then the second ones, (..., 2 R) -> the same.

    Its gradient is the inverse rotation, so ``x`` need not be stored.
    """

    @staticmethod
    def forward(ctx, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _rotated(grads[0], cos, -sin), None, None


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = cos.shape[-1]
    first, second = x[..., :half], x[..., half:]
    out = torch.empty_like(x)
    torch.mul(first, cos, out=out[..., :half]).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=out[..., half:]).addcmul_(first, sin)
    return out


def apply_rope_oracle(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(a cos - b sin, b cos + a sin) of each pair (a, b), by the formula."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class SiluGate(torch.autograd.Function):
    """silu(a) · b of the halves a and b of the last axis: (..., 2 F) -> (..., F).

    Autograd would store silu(a) and join the gradients of the halves by a copy; this stores its input alone, and writes
    both gradients where they belong: g b silu'(a) and g silu(a).
    """

    @staticmethod
    def forward(ctx, halves: Tensor) -> Tensor:
        ctx.save_for_backward(halves)
        gate, up = halves.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads: Tensor) -> Tensor:
        (g,) = grads
        (halves,) = ctx.saved_tensors
        gate, up = halves.chunk(2, dim=-1)
        gradient = torch.empty_like(halves)
        of_gate, of_up = gradient.chunk(2, dim=-1)
        torch.mul(F.silu(gate), g, out=of_up)
        torch.ops.aten.silu_backward.grad_input(g * up, gate, grad_input=of_gate)
        return gradient


def silu_gate_oracle(halves: Tensor) -> Tensor:
    """silu(a) · b of the halves of the last axis, by the formula."""
    a, b = halves.chunk(2, dim=-1)
    return a * torch.sigmoid(a) * b


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


class CrossEntropy(torch.autograd.Function):
    """Σ (ln Σ exp z - (1 - ε) z_target - ε mean z) with its gradient in closed form: p - (1 - ε) onehot - ε / V.

    torch computes the exponential of every logit in the forward pass and again in the backward pass, and makes more
    passes for the smoothing; with 4,096 positions and a vocabulary of 4,000 that is a seventh of a translator's step.
    Here the probabilities are computed once and become the gradient in place, so the gradient can be taken only once.
    """

    @staticmethod
    def forward(ctx, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        counted = targets != IGNORED
        right = targets.clamp(min=0)[:, None]  # (N, 1)
        p = logits.softmax(dim=-1)
        # ln Σ exp z relative to the largest logit, whose p is at least 1 / V
        normaliser = logits.amax(dim=-1, keepdim=True) - p.amax(dim=-1, keepdim=True).log()
        each = normaliser - (1 - smoothing) * logits.gather(1, right)
        if smoothing:
            each -= smoothing * logits.mean(dim=-1, keepdim=True)
        ctx.save_for_backward(p, right, counted)
        ctx.smoothing = smoothing
        return each[counted].sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:
        p, right, counted = ctx.saved_tensors
        if ctx.smoothing:
            p -= ctx.smoothing / p.shape[-1]
        p.scatter_add_(1, right, torch.full_like(right, ctx.smoothing - 1, dtype=p.dtype))
        p.index_fill_(0, (~counted).nonzero().flatten(), 0.0)
        if grads[0] != 1:
            p *= grads[0]
        return p, None, None


def cross_entropy_oracle(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """-(1 - ε) ln p_target - ε mean ln p, summed over the targets that count, by the formula."""
    total = logits.sum() * 0
    for z, target in zip(logits, targets.tolist(), strict=True):
        if target != IGNORED:
            shifted = z - z.max()
            log_p = shifted - shifted.exp().sum().log()  # (V,)
            total = total - (1 - smoothing) * log_p[target] - smoothing * log_p.mean()
    return total
