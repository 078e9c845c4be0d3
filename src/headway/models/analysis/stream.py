"""The residual stream, and what a model would predict from it after each of its layers.

Letters: B batch, T length, V vocabulary, C classes, D width, L layers.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.analysis.maps import stacks_of
from headway.models.heads import Gives, gives


def residual_stream(model: nn.Module, *inputs: Any, **given: Any) -> Tensor:
    """The vectors after the embedding and after every block of the last stack: (L + 1, B, T, D).

    Of an encoder-decoder, that is the decoder.  Raises TypeError for a module that is none of the three wirings.
    """
    *_, stack = stacks_of(model).values()
    vectors: list[Tensor] = []
    with torch.no_grad(), ExitStack() as hooks:
        for part in (stack.embedding, *stack.blocks):
            hooks.callback(part.register_forward_hook(lambda _module, _given, result: vectors.append(result)).remove)
        model(*inputs, **given)
    return torch.stack(vectors)


def logit_lens(model: nn.Module, *inputs: Any, **given: Any) -> Tensor:
    """The final norm and the head applied to the residual stream after every layer: (L + 1, B, T, V).

    Row 0 is for the embeddings, row l for block l, and the last row equals ``model(*inputs, **given)`` exactly, since
    both run without gradients.  For an encoder-decoder it is the decoder's; for a classifier the rows are (B, C).
    Raises TypeError for a module that is none of the three wirings, and ValueError for a model without a head that
    computes logits (the logit lens: nostalgebraist 2020).
    """
    *_, stack = stacks_of(model).values()
    head: Any = model.head
    if gives(model) not in (Gives.VOCABULARY, Gives.ROW):
        what = "no head" if head is None else f"a {type(head).__name__}"
        raise ValueError(f"the model has {what}; the logit lens needs a head that computes logits")
    more: list[tuple[Any, ...]] = []  # further arguments of the head: a mask
    hook = head.register_forward_pre_hook(lambda _module, found: more.append(found[1:]))
    try:
        stream = residual_stream(model, *inputs, **given)
    finally:
        hook.remove()
    with torch.no_grad():
        return torch.stack([head(stack.norm(x), *more[0]) for x in stream])
