"""Initial weights."""

import torch
from torch import nn

from headway.nn.attention import Attention
from headway.nn.feedforward import FeedForward
from headway.nn.norm import LayerNorm, RMSNorm
from headway.nn.positions import LearnedPositions, RelativeBias


def initialise(
    model: nn.Module,
    seed: int,
    *,
    embedding_std: float = 0.02,
    position_std: float | None = None,
    zero_out: bool = True,
) -> nn.Module:
    """Draw every weight from a generator of its own, in place; norms start at one, biases at zero.

    Embeddings are drawn with ``embedding_std``, learned positions with ``position_std`` where given; biases for
    distances (T5) start at zero, which favours no distance.

    Matrices are uniform with standard deviation 1/√(fan in), so that each layer preserves the scale of its input.  With
    ``zero_out`` the last matrix of every residual branch is zero, so that each block starts as the identity (a deep
    pre-norm model then starts as only its embeddings and its head).
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear):
                bound = (3.0 / module.in_features) ** 0.5
                module.weight.uniform_(-bound, bound, generator=generator)
                if module.bias is not None:
                    module.bias.zero_()
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                module.weight.normal_(0.0, embedding_std, generator=generator)
            if isinstance(module, LayerNorm | RMSNorm) and module.weight is not None:
                module.weight.fill_(1.0)
            if isinstance(module, LayerNorm) and module.bias is not None:
                module.bias.zero_()
        for module in model.modules():
            if isinstance(module, LearnedPositions) and position_std is not None:
                module.table.weight.normal_(0.0, position_std, generator=generator)
            if isinstance(module, RelativeBias):
                module.table.weight.zero_()
        if zero_out:
            for module in model.modules():
                if isinstance(module, Attention | FeedForward):
                    module.out.weight.zero_()
    return model
