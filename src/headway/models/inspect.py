"""Looking inside a model while it runs, without changing what it computes.

Letters: B batch, H heads, T queries, S keys.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.attention import Attention


def attention_maps(model: nn.Module, *inputs: Any, **given: Any) -> dict[str, list[Tensor]]:
    """Who attended to whom when ``model(*inputs, **given)`` ran: one (B, H, T, S) tensor for each layer, by kind.

    The kind is "self" for an encoder or a decoder; "encoder", "decoder" and "cross" for an encoder-decoder.  Each row
    sums to one.  The model computes what it computes unwatched, without gradients.  Raises TypeError for a module that
    is none of the three wirings.
    """
    kinds = _attentions(model)
    maps: dict[str, list[Tensor]] = {kind: [] for kind in kinds}
    with torch.no_grad(), ExitStack() as watches:
        for kind, layers in kinds.items():
            for layer in layers:
                watches.enter_context(_watching(layer, maps[kind]))
        model(*inputs, **given)
    return maps


def _attentions(model: nn.Module) -> dict[str, list[Attention]]:
    """The attention layers of a model, by kind, in the order in which they run."""
    if isinstance(model, Encoder | Decoder):
        return {"self": _within(model.stack)}
    if isinstance(model, EncoderDecoder):
        decoder = _within(model.decoder)
        return {
            "encoder": _within(model.encoder),
            "decoder": [layer for layer in decoder if not layer.cross],
            "cross": [layer for layer in decoder if layer.cross],
        }
    raise TypeError(f"{type(model).__name__} is not an Encoder, a Decoder or an EncoderDecoder")


def _within(module: nn.Module) -> list[Attention]:
    return [layer for layer in module.modules() if isinstance(layer, Attention)]


@contextmanager
def _watching(layer: Attention, maps: list[Tensor]) -> Iterator[None]:
    """Append the weights of every call to ``maps``, and hand them on to whoever watched before."""
    before = layer.watch

    def watch(weights: Tensor) -> None:
        maps.append(weights)
        if before is not None:
            before(weights)

    layer.watch = watch
    try:
        yield
    finally:
        layer.watch = before
