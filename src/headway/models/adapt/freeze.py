"""Freeze the lower part of a model, cut it off after its first blocks, or change its dropout."""

from dataclasses import replace
from typing import Any

from torch import nn

from headway.models.config import TransformerConfig
from headway.models.transformer import Encoder, Stack
from headway.nn.attention import Attention
from headway.nn.dropout import Dropout
from headway.nn.feedforward import FeedForward


def freeze(model: nn.Module, n_blocks: int | None) -> nn.Module:
    """Freeze the embeddings and the first ``n_blocks`` blocks of every stack, in place.

    0 freezes only the embeddings, None nothing.  An output matrix tied to the embedding is frozen with it.  Raises
    ValueError for more blocks than the model has.
    """
    if n_blocks is None:
        return model
    for stack in [module for module in model.modules() if isinstance(module, Stack)]:
        if n_blocks > len(stack.blocks):
            raise ValueError(f"{n_blocks} blocks cannot be frozen: the model has {len(stack.blocks)}")
        for part in (stack.embedding, *stack.blocks[:n_blocks]):
            part.requires_grad_(False)
    return model


def first_blocks(model: Encoder, n_blocks: int) -> Encoder:
    """Keep the first ``n_blocks`` blocks of an encoder, in place; the final norm is kept.

    Vectors from the middle of an encoder are often better for other tasks than those of its end.
    Raises ValueError unless 1 ≤ n_blocks ≤ the number of blocks.
    """
    config = model.config
    if not 1 <= n_blocks <= config.n_layers:
        raise ValueError(f"{n_blocks} blocks cannot be kept: the model has {config.n_layers}")
    window = config.window[:n_blocks] if isinstance(config.window, tuple) else config.window
    positions = config.positions
    if isinstance(window, tuple) and not any(window):  # no block with a window is left, nor its positions
        window, positions = None, replace(config.position, window_base=None)
    model.config = model.stack.config = config.but(n_layers=n_blocks, window=window, positions=positions)
    model.stack.blocks = nn.ModuleList(list(model.stack.blocks)[:n_blocks])
    model.stack.windows = model.stack.windows[:n_blocks]
    return model


def set_dropout(model: nn.Module, p: float) -> nn.Module:
    """Give every layer the dropout it would have in a model built with ``p``; in place.

    Embeddings, residual branches, attention weights and heads drop with probability ``p``, and every configuration in
    the model is updated.  The hidden units of the feed-forward layers keep their dropout, which is none in a model
    built from a configuration.  Raises ValueError unless 0 ≤ p < 1.
    """
    if not 0 <= p < 1:
        raise ValueError(f"dropout is {p}; it must be from 0 to below 1")
    hidden = {id(module.dropout) for module in model.modules() if isinstance(module, FeedForward)}
    for module in model.modules():
        if (isinstance(module, Dropout) and id(module) not in hidden) or isinstance(module, Attention):
            setattr(module, "p" if isinstance(module, Dropout) else "dropout", p)
    change_configs(model, dropout=p)
    return model


def change_configs(model: nn.Module, **changes: Any) -> None:
    """Change fields of every configuration in a model, in place."""
    for module in model.modules():
        for name in ("config", "encoder_config"):
            config = getattr(module, name, None)
            if isinstance(config, TransformerConfig):
                setattr(module, name, config.but(**changes))
