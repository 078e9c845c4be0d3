"""The logit lens: what a model would predict if it stopped after each of its layers (nostalgebraist 2020).

Letters: B batch, T length, V vocabulary, C classes, D width, L layers.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.analysis.maps import stacks_of
from headway.models.heads import ClassificationHead, MaskedTokenHead, TokenHead
from headway.models.transformer import Stack


def logit_lens(model: nn.Module, *inputs: Any, **given: Any) -> Tensor:
    """The final norm and the head applied to the residual stream after every layer: (L + 1, B, T, V).

    Row 0 is for the embeddings, row l for block l, and the last row equals ``model(*inputs, **given)`` exactly, since
    both run without gradients.  For an encoder-decoder it is the decoder's; for a classifier the rows are (B, C).
    Raises TypeError for a module that is none of the three wirings, and ValueError for a model without a head that
    computes logits.
    """
    stack, head = _stack_and_head(model)
    streams: list[Tensor] = []
    more: list[tuple[Any, ...]] = []  # further arguments of the head: a mask

    def keep(_module: nn.Module, _given: Any, result: Tensor) -> None:
        streams.append(result)

    with torch.no_grad():
        with ExitStack() as hooks:
            for part in (stack.embedding, *stack.blocks):
                hooks.callback(part.register_forward_hook(keep).remove)
            hooks.callback(head.register_forward_pre_hook(lambda _module, found: more.append(found[1:])).remove)
            model(*inputs, **given)
        return torch.stack([head(stack.norm(x), *more[0]) for x in streams])


def _stack_and_head(model: nn.Module) -> tuple[Stack, nn.Module]:
    *_, stack = stacks_of(model).values()
    head = model.head
    if not isinstance(head, TokenHead | MaskedTokenHead | ClassificationHead):
        found = "no head" if head is None else f"a {type(head).__name__}"
        raise ValueError(f"the model has {found}; the logit lens needs a head that computes logits")
    return stack, head
