"""Cross-entropy of logits and targets with its gradient in closed form.

Letters: N places, V vocabulary.
"""

import torch
from torch import Tensor

IGNORED = -100
"""A target that does not count; torch uses the same number."""


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
