"""Train a model by low-rank updates of its blocks, and merge them into an ordinary model (LoRA; Hu et al. 2021).

Letters: I input width of a layer, O its output width, R rank, P matrices stacked in one layer.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.heads import TokenHead
from headway.models.transformer import Stack
from headway.nn.activations import ACTIVATIONS
from headway.nn.attention import Attention
from headway.nn.feedforward import FeedForward
from headway.nn.kernels.dispatch import linear
from headway.nn.linear import Linear

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
    def merged(self) -> Linear:
        """An ordinary linear layer with the update added to its weights."""
        pairs = zip(self.up.split(self.sizes), self.down.split(self.rank), strict=True)
        update = torch.cat([up @ down for up, down in pairs])  # (O, I)
        plain = Linear(self.in_features, self.out_features, bias=False, device="meta")
        plain.weight, plain.bias = nn.Parameter(self.weight + SCALE * update), self.bias
        return plain


def add_lora(model: nn.Module, rank: int, *, seed: int = 0, first: int = 0) -> nn.Module:
    """Add an update of that rank to every linear layer of the blocks, and freeze everything else; in place.

    The matrices of attention (queries, keys, values, outputs) and of the feed-forward layer have one update each, also
    where several are stacked in one layer.  The first ``first`` blocks get none, and parameters that were
    already frozen stay frozen.  A head is trained in full, except for a language model's output matrix and for any
    matrix that is the token embedding.  ``merged`` makes an ordinary model of it.  Raises ValueError for a rank larger
    than a matrix, and for more blocks than the model has.
    """
    generator = torch.Generator().manual_seed(seed)
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    head = getattr(model, "head", None)
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    model.requires_grad_(False)
    if head is not None and not isinstance(head, TokenHead):
        for p in (p for p in head.parameters() if id(p) in trained):
            p.requires_grad_(True)
    for stack in stacks:
        if first > len(stack.blocks):
            raise ValueError(f"{first} blocks cannot be frozen: the model has {len(stack.blocks)}")
        stack.embedding.requires_grad_(False)  # and with it the matrix of a tied head
        for block in [one for one in list(stack.blocks)[first:] if any(id(p) in trained for p in one.parameters())]:
            for part in [part for part in block.modules() if isinstance(part, Attention | FeedForward)]:
                for name, layer in list(part.named_children()):
                    if isinstance(layer, nn.Linear):
                        setattr(part, name, LowRankLinear(layer, rank, _sizes(part, name, layer), generator))
    return model


def merged(model: nn.Module) -> nn.Module:
    """The ordinary model of the same family with the low-rank updates merged in; the model itself if it has none.

    Weights without an update are shared with the model, which itself does not change.
    """
    if not any(isinstance(module, LowRankLinear) for module in model.modules()):
        return model
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    plain = copy.deepcopy(model, shared)
    for part in list(plain.modules()):
        for name, layer in list(part.named_children()):
            if isinstance(layer, LowRankLinear):
                setattr(part, name, layer.merged())
    return plain


def count_parameters(model: nn.Module) -> tuple[int, int]:
    """(the number of parameters of the model as saved, the number of trained parameters)."""
    updates = {id(p) for m in model.modules() if isinstance(m, LowRankLinear) for p in (m.down, m.up)}
    whole = sum(p.numel() for p in model.parameters() if id(p) not in updates)
    trained = 0
    for p in (p for p in model.parameters() if p.requires_grad):
        rows = getattr(p, "trained_rows", None)
        trained += p.numel() if rows is None else p[rows].numel()
    return whole, trained


def _sizes(part: nn.Module, name: str, layer: nn.Linear) -> tuple[int, ...]:
    """The rows of each matrix stacked in one layer."""
    if isinstance(part, Attention) and name in ("qkv", "kv"):
        q, kv = part.n_heads * part.d_head, part.n_kv_heads * part.d_head
        return (q, kv, kv) if name == "qkv" else (kv, kv)
    if isinstance(part, FeedForward) and part.gated and name == "up":
        return layer.out_features // 2, layer.out_features // 2
    return (layer.out_features,)
