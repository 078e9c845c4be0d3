"""Low-rank updates of a linear layer (LoRA; Hu et al. 2021).

Letters: I input width of a layer, O its output width, R rank, P matrices stacked in one layer.
"""

import torch
from torch import Tensor, nn

from headway.nn.activations import ACTIVATIONS
from headway.nn.kernels.dispatch import linear

SCALE = 2.0
"""The factor of an update: alpha / R with alpha = 2 R, whatever the rank."""


class LowRankLinear(nn.Linear):
    """A frozen linear layer with a trained update of low rank: W x + SCALE · B A x.

    A layer may hold several stacked matrices (queries, keys and values; a gate and what it gates) of ``sizes`` rows.
    Each has an update of its own: ``down`` (P R, I) holds their matrices A stacked, and the rows of ``up`` (O, R) for
    each matrix are its B.  A is normal with variance 1 / I; B is zero, so that training starts from the unchanged
    layer.  The weights of ``layer`` are shared, not copied, and frozen.
    """

    def __init__(self, layer: nn.Linear, rank: int, sizes: tuple[int, ...], generator: torch.Generator | None = None):
        super().__init__(layer.in_features, layer.out_features, bias=False, device="meta")
        largest = min(layer.in_features, *sizes)
        if not 1 <= rank <= largest:
            raise ValueError(f"the rank {rank} must be from 1 to {largest}, the smaller side of the matrices")
        if sum(sizes) != layer.out_features:
            raise ValueError(f"matrices of {sizes} rows are not the {layer.out_features} rows of the layer")
        self.weight, self.bias = layer.weight, layer.bias
        self.weight.requires_grad_(False)
        if self.bias is not None:
            self.bias.requires_grad_(False)
        self.rank, self.sizes = rank, sizes
        down = torch.empty(len(sizes) * rank, layer.in_features)
        down.normal_(0.0, layer.in_features**-0.5, generator=generator)
        self.down = nn.Parameter(down.to(self.weight.device, self.weight.dtype))
        self.up = nn.Parameter(self.weight.new_zeros(layer.out_features, rank))

    def forward(self, x: Tensor, activation: str | None = None) -> Tensor:
        """(..., I) -> (..., O), with an activation by its name if one is given."""
        low = linear(x, self.down).split(self.rank, dim=-1)  # P of (..., R)
        updates = [linear(part, up) for part, up in zip(low, self.up.split(self.sizes), strict=True)]
        update = updates[0] if len(updates) == 1 else torch.cat(updates, dim=-1)  # (..., O)
        y = linear(x, self.weight, self.bias) + SCALE * update
        return y if activation is None else ACTIVATIONS[activation](y)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """An ordinary linear layer with the update added to its weights."""
        pairs = zip(self.up.split(self.sizes), self.down.split(self.rank), strict=True)
        update = torch.cat([up @ down for up, down in pairs])  # (O, I)
        plain = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        plain.weight, plain.bias = nn.Parameter(self.weight + SCALE * update), self.bias
        return plain
