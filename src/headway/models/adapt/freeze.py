"""Freeze the lower part of a model."""

from torch import nn

from headway.models.transformer import Stack


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
