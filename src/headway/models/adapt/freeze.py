"""Leave the lower part of a model as it is."""

from torch import nn

from headway.models.transformer import Stack


def freeze(model: nn.Module, n_blocks: int | None) -> nn.Module:
    """Stop the gradient of the embeddings and of the first ``n_blocks`` blocks of every stack, in place.

    0 freezes the embeddings alone, None nothing.  An output matrix that is tied to the embedding is frozen with it.
    Raises ValueError for more blocks than there are.
    """
    if n_blocks is None:
        return model
    for stack in [module for module in model.modules() if isinstance(module, Stack)]:
        if n_blocks > len(stack.blocks):
            raise ValueError(f"{n_blocks} blocks cannot be frozen: the model has {len(stack.blocks)}")
        for part in (stack.embedding, *stack.blocks[:n_blocks]):
            part.requires_grad_(False)
    return model
