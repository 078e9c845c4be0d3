"""Mean pooling within a family's own classifier, which reads only the first token's vector.

An additional block, in the family's own post-norm layout, brings the mean m of the T token vectors x_t to every
position, including the first:

    queries and keys are 0              every token has the weight 1/T, so attention computes m
    values are I, outputs are S·I       norm(x_t + S m) = norm(m) except for x_t / S, since norms ignore the scale
    the feed-forward layer is 0         norm(norm(m)) · g = g (m - its average) / its standard deviation =: v

The classifier's dense layer is a multiple of the identity, on which its activation is nearly linear, so that its last
matrix reads v: a linear classifier on normalised mean vectors, with weights that every program for the family loads.  A
family whose classifier can pool the mean itself (ModernBERT) needs no block.
"""

from typing import Any

import torch
from torch import nn

from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.transformer import Encoder, block

SCALE = 256.0
"""S: less than a hundredth of each token's own vector is left, and the sum fits into 16-bit numbers."""
SPREAD = 0.2
"""g, the standard deviation of the input of the classifier's last matrix."""
SMOOTH = (1 / 16, 0.0)
PASSES = {"tanh": (1.0, 0.0), "relu": (1.0, 1.0), "gelu": SMOOTH, "gelu_tanh": SMOOTH, "silu": SMOOTH}
"""Activations -> the factor and the shift of their input that make them nearly linear."""


def needs_layer(config: TransformerConfig, head: ClassificationHead) -> bool:
    """Whether this classifier needs another block to read a mean.  Raises ValueError if no block can do it."""
    if head.pooling == "mean":
        return False
    if config.norm_order != "post" or head.dense is None or head.activation not in PASSES:
        raise ValueError("the mean of token vectors cannot be put into this family's classifier")
    return True


def with_block(config: TransformerConfig) -> TransformerConfig:
    """The configuration including the block."""
    window = (*config.window, None) if isinstance(config.window, tuple) else config.window
    return config.but(n_layers=config.n_layers + 1, window=window)


def read_mean(model: Encoder, head: ClassificationHead) -> None:
    """Make a new ``head`` of the model's family read the mean of the token vectors, in place; this may add a block.

    The block and the dense layer are frozen, so that the mean stays a mean; ``head.out`` and everything below are
    trained.
    """
    if needs_layer(model.config, head):
        _append_block(model)
    dense = head.dense
    if dense is None:
        return
    multiple, shift = PASSES[head.activation]
    with torch.no_grad():
        dense.weight.copy_(multiple * torch.eye(len(dense.weight)))
        if dense.bias is not None:
            dense.bias.fill_(shift)
        for p in head.norm.parameters():
            p.fill_(SPREAD if p is head.norm.weight else 0.0)
    dense.requires_grad_(False)
    head.norm.requires_grad_(False)


def shift_of(head: ClassificationHead) -> float:
    """What the dense layer of such a head adds to every input feature of ``head.out``."""
    return PASSES[head.activation][1] if isinstance(head.norm, nn.Identity) else 0.0


def has_block(model: nn.Module) -> bool:
    """Whether the last block of an encoder is one that ``read_mean`` added: its queries and keys are all 0."""
    if not isinstance(model, Encoder) or model.config.norm_order != "post":
        return False
    qkv = dict(model.stack.blocks[-1].named_modules()).get("attention.layer.qkv")
    return isinstance(qkv, nn.Linear) and not qkv.weight.is_meta and not qkv.weight[: -model.config.d_model].any()


def _append_block(model: Encoder) -> None:
    config, weight = with_block(model.config), next(model.parameters())
    with torch.random.fork_rng(devices=[]):  # torch's own initial weights are overwritten; keep its generator unchanged
        new: Any = block(config, config.n_layers - 1, None).to(weight.device, weight.dtype).train(model.training)
    identity = torch.eye(config.d_model)
    with torch.no_grad():
        for p in (*new.attention.layer.parameters(), *new.feedforward.layer.parameters()):
            p.zero_()
        new.attention.layer.qkv.weight[-config.d_model :] = identity  # queries, keys, values
        new.attention.layer.out.weight.copy_(SCALE * identity)
        new.feedforward.norm.weight.fill_(SPREAD)
    new.requires_grad_(False)
    model.config = model.stack.config = config
    model.stack.blocks.append(new)
    model.stack.windows.append(config.layer_window(config.n_layers - 1))
