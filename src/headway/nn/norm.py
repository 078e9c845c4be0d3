"""Layer normalisation (Ba et al. 2016) and root-mean-square normalisation (Zhang and Sennrich 2019)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.kernels.dispatch import rms_norm


class LayerNorm(nn.Module):
    """γ (x - mean) / √(variance + ε) + β over the last axis; the variance divides by D, and ε is inside the root.

    ``weight`` and ``bias`` choose whether γ and β exist.
    """

    def __init__(self, width: int, eps: float = 1e-5, weight: bool = True, bias: bool = True):
        super().__init__()
        self.width, self.eps = width, eps
        self.weight = nn.Parameter(torch.ones(width)) if weight else None
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return F.layer_norm(x, (self.width,), self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """γ x / √(mean of x² + ε) over the last axis; ``weight`` chooses whether γ exists."""

    def __init__(self, width: int, eps: float = 1e-6, weight: bool = True):
        super().__init__()
        self.width, self.eps = width, eps
        self.weight = nn.Parameter(torch.ones(width)) if weight else None

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return rms_norm(x, self.weight, self.eps)


def norm_heads(qk: Tensor, of_q: nn.Module, of_k: nn.Module, n_heads: int) -> Tensor:
    """Queries and keys (B, T, H + G, K), each by its own norm; two RMSNorms in one call."""
    if isinstance(of_q, RMSNorm) and isinstance(of_k, RMSNorm):
        if of_q.weight is None or of_k.weight is None:
            return of_q(qk)
        if torch.is_grad_enabled():
            weights = [of_q.weight.expand(n_heads, -1), of_k.weight.expand(qk.shape[2] - n_heads, -1)]
            return rms_norm(qk, torch.cat(weights), of_q.eps)  # (H + G, K)
    return torch.cat([of_q(qk[:, :, :n_heads]), of_k(qk[:, :, n_heads:])], dim=2)
