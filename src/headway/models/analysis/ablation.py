"""Heads switched off: what they add to the residual stream is left out while a model runs.

Letters: B batch, T queries, H heads, K head width.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from headway.models.analysis.maps import attentions


@contextmanager
def heads_off(model: nn.Module, heads: Iterable[tuple[str, int, int]]) -> Iterator[None]:
    """Let the model run without some heads: (kind, layer, head) each, as ``attention_maps`` counts them from 0.

    The output of such a head is replaced by zeros before the output projection (Michel et al. 2019).  Raises TypeError
    for a module that is none of the three wirings, and ValueError for a head that the model does not have.
    """
    layers = attentions(model)
    with ExitStack() as hooks:
        for kind, layer, head in heads:
            found = layers.get(kind, [])
            if not (0 <= layer < len(found) and 0 <= head < found[layer].n_heads):
                raise ValueError(f"there is no head {head} in layer {layer} of {kind!r} attention")
            attention = found[layer]
            part = slice(head * attention.d_head, (head + 1) * attention.d_head)
            hooks.callback(attention.out.register_forward_pre_hook(partial(_without, part)).remove)
        yield


def _without(part: slice, _module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    values: Tensor = given[0].clone()  # (B, T, H K)
    values[..., part] = 0
    return (values, *given[1:])
