"""Dropout (Srivastava et al. 2014)."""

import torch
from torch import Tensor, nn

from headway.nn.random import generator


class Dropout(nn.Module):
    """Zero entries with probability ``p`` in training and divide the others by 1 - p; the identity otherwise."""

    def __init__(self, p: float):
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout is {p}; it must be from 0 to below 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return drop(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"


def drop(x: Tensor, p: float) -> Tensor:
    """Dropout of ``x`` with probability ``p``, rounded to a 256th.

    A random byte decides each entry, and one draw gives eight of them.  torch draws once for each entry, which on a CPU
    takes a quarter of a small model's step.
    """
    dropped = round(p * 256)
    if dropped == 0:
        return x
    draws = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device)
    # all 64 bits: without a range, the sign would always be the same
    draws.random_(-(2**63), None, generator=generator())
    kept = torch.ge(draws.view(torch.uint8)[: x.numel()].view(x.shape), dropped, out=torch.empty_like(x))  # 0 or 1
    return x * kept.mul_(256 / (256 - dropped))
