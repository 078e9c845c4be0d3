"""Train a model by low-rank updates of its blocks, and merge them into an ordinary model (Hu et al. 2021)."""

import copy
from typing import Any

import torch
from torch import nn

from headway.models.heads import TokenHead
from headway.models.transformer import Stack
from headway.nn.attention import Attention
from headway.nn.feedforward import FeedForward
from headway.nn.lora import LowRankLinear


def add_lora(model: nn.Module, rank: int, *, seed: int = 0, first: int = 0) -> nn.Module:
    """Add an update of that rank to every linear layer of the blocks, and freeze everything else; in place.

    The matrices of attention (queries, keys, values, outputs) and of the feed-forward layer have one update each, also
    where several are stacked in one layer (``nn.lora``).  The first ``first`` blocks get none, and parameters that were
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
                for name, linear in list(part.named_children()):
                    if isinstance(linear, nn.Linear):
                        setattr(part, name, LowRankLinear(linear, rank, _sizes(part, name, linear), generator))
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


def _sizes(part: nn.Module, name: str, linear: nn.Linear) -> tuple[int, ...]:
    """The rows of each matrix stacked in one layer."""
    if isinstance(part, Attention) and name in ("qkv", "kv"):
        q, kv = part.n_heads * part.d_head, part.n_kv_heads * part.d_head
        return (q, kv, kv) if name == "qkv" else (kv, kv)
    if isinstance(part, FeedForward) and part.gated and name == "up":
        return linear.out_features // 2, linear.out_features // 2
    return (linear.out_features,)
