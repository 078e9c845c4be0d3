"""The residual stream: the vector of every token after the embedding and after each block.

Letters: B batch, T length, D width, L layers.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.analysis.maps import stacks_of


def residual_stream(model: nn.Module, *inputs: Any, **given: Any) -> Tensor:
    """The vectors after the embedding and after every block of the last stack: (L + 1, B, T, D).

    Of an encoder-decoder, that is the decoder.  Raises TypeError for a module that is none of the three wirings.
    """
    *_, stack = stacks_of(model).values()
    found: list[Tensor] = []
    with torch.no_grad(), ExitStack() as hooks:
        for part in (stack.embedding, *stack.blocks):
            hooks.callback(part.register_forward_hook(lambda _module, _given, result: found.append(result)).remove)
        model(*inputs, **given)
    return torch.stack(found)
