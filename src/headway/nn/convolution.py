"""Convolutions over tokens (Kim 2014): each filter reads a few neighbouring tokens, at any position.

Letters: B batch, T length, D width, F filters of one width.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Convolutions(nn.Module):
    """Filters of several widths, D in total, followed by ReLU.

    Beyond the ends of a text the filters read zeros, as they do from padding: the result does not depend on the batch.
    """

    def __init__(self, d_in: int, d_out: int, widths: Sequence[int]):
        super().__init__()
        if not widths or min(widths) < 1 or d_out < len(widths):
            raise ValueError(
                f"widths are {list(widths)} for {d_out} filters; expected whole numbers ≥ 1, a filter each"
            )
        each, left = divmod(d_out, len(widths))
        self.widths = tuple(widths)
        self.filters = nn.ModuleList(nn.Conv1d(d_in, each + (n < left), width) for n, width in enumerate(widths))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D): at each token, the outputs of the filters centred on it."""
        if mask is not None:
            x = x * mask[..., None]
        x = x.mT  # (B, D, T)
        found = [
            conv(F.pad(x, ((width - 1) // 2, width // 2)))
            for conv, width in zip(self.filters, self.widths, strict=True)
        ]  # of (B, F, T)
        return torch.relu(torch.cat(found, dim=1)).mT
