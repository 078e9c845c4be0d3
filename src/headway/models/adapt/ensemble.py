"""Several classifiers used as one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Ensemble(nn.Module):
    """Classifiers with the same classes, whose probabilities are averaged."""

    def __init__(self, members: Sequence[nn.Module]):
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs at least one member")
        self.members = nn.ModuleList(members)

    @property
    def config(self) -> Any:
        """The configuration of the first member; the others read the same tokens."""
        return self.members[0].config

    def forward(self, ids: Tensor, mask: Tensor | None = None, **segments: Tensor) -> Tensor:
        """(B, T) int -> (B, C): logarithms of the mean probabilities, in place of logits."""
        each = torch.stack(
            [member(ids, mask, **segments).float().softmax(dim=-1) for member in self.members]
        )  # (M, B, C)
        return each.mean(dim=0).log()
