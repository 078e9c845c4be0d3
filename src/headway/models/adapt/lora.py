"""A model trained by low-rank updates of its blocks, and the plain model that it amounts to (Hu et al. 2021)."""

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
    """Give every linear layer of the blocks an update of that rank, and freeze all else; in place.

    The matrices of attention (queries, keys, values, outputs) and of the feed-forward layer have one each; where some
    are stacked in one layer, each has its own (``nn.lora``).  The first ``first`` blocks have none, and what was frozen
    before stays so.  A head stays trained in full, but for a language model's matrix and for any that is the token
    embedding.  ``merged`` gives back a plain model.  Raises ValueError for a rank that is larger than a matrix, and for
    more blocks than there are.
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
        stack.embedding.requires_grad_(False)  # a tied head's matrix with it
        for block in [one for one in list(stack.blocks)[first:] if any(id(p) in trained for p in one.parameters())]:
            for part in [part for part in block.modules() if isinstance(part, Attention | FeedForward)]:
                for name, linear in list(part.named_children()):
                    if isinstance(linear, nn.Linear):
                        setattr(part, name, LowRankLinear(linear, rank, _sizes(part, name, linear), generator))
    return model


def merged(model: nn.Module) -> nn.Module:
    """The plain model of its family that a model with low-rank updates amounts to; the model itself if it has none.

    All weights but those that have an update are shared with the model, which goes on as it is.
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
    """(how many parameters the model has as it is saved, how many numbers are trained)."""
    updates = {id(p) for m in model.modules() if isinstance(m, LowRankLinear) for p in (m.down, m.up)}
    whole = sum(p.numel() for p in model.parameters() if id(p) not in updates)
    trained = 0
    for p in (p for p in model.parameters() if p.requires_grad):
        rows = getattr(p, "trained_rows", None)
        trained += p.numel() if rows is None else p[rows].numel()
    return whole, trained


def _sizes(part: nn.Module, name: str, linear: nn.Linear) -> tuple[int, ...]:
    """How many rows each of the matrices has that are stacked in one layer."""
    if isinstance(part, Attention) and name in ("qkv", "kv"):
        q, kv = part.n_heads * part.d_head, part.n_kv_heads * part.d_head
        return (q, kv, kv) if name == "qkv" else (kv, kv)
    if isinstance(part, FeedForward) and part.gated and name == "up":
        return linear.out_features // 2, linear.out_features // 2
    return (linear.out_features,)
