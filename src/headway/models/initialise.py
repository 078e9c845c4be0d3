"""Initial weights."""

import torch
from torch import nn

from headway.nn.attention import Attention
from headway.nn.baselines import GATES, Recurrent
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

    Matrices are uniform with standard deviation 1/√(fan in), so that each layer preserves the scale of its input.  In
    recurrent layers those from state to state are orthogonal, gate by gate, and the bias of an LSTM's forget gate is
    one (Jozefowicz et al. 2015), so that it starts by remembering.  With ``zero_out`` the last matrix of every residual
    branch is zero, so that each block starts as the identity (a deep pre-norm model then starts as only its embeddings
    and its head).
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Conv1d):
                bound = (3.0 / (module.weight.numel() / len(module.weight))) ** 0.5
                module.weight.uniform_(-bound, bound, generator=generator)
                if module.bias is not None:
                    module.bias.zero_()
            if isinstance(module, Recurrent):
                _draw_recurrent(module, generator)
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


def _draw_recurrent(layer: Recurrent, generator: torch.Generator) -> None:
    for name, p in layer.core.named_parameters():
        if name.startswith("weight_hh"):
            for gate in p.chunk(GATES[layer.kind]):
                nn.init.orthogonal_(gate, generator=generator)
        elif name.startswith("weight_ih"):
            p.uniform_(-((3.0 / p.shape[1]) ** 0.5), (3.0 / p.shape[1]) ** 0.5, generator=generator)
        else:
            p.zero_()
            if layer.kind == "lstm" and name.startswith("bias_ih"):
                p.chunk(4)[1].fill_(1.0)
