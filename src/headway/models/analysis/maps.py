"""Attention maps: the weights of every head, recorded while a model runs; and heads switched off.

Letters: B batch, H heads, T queries, S keys, G key-value heads, K head width.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.transformer import Decoder, Encoder, EncoderDecoder, Stack
from headway.nn.attention import Attention
from headway.nn.kernels.attention import attention_weights
from headway.nn.masks import attention_mask


def attention_maps(model: nn.Module, *inputs: Any, **given: Any) -> dict[str, list[Tensor]]:
    """The attention weights of ``model(*inputs, **given)``: one (B, H, T, S) tensor per layer, by kind.

    The kind is "self" for an encoder or a decoder; "encoder", "decoder" and "cross" for an encoder-decoder.  Each row
    sums to one.  The model runs as usual, without gradients.  Raises TypeError for a module that is none of the three
    wirings.
    """
    kinds = attentions(model)
    maps: dict[str, list[Tensor]] = {kind: [] for kind in kinds}
    with torch.no_grad(), ExitStack() as watches:
        for kind, layers in kinds.items():
            for layer in layers:
                watches.enter_context(_watching(layer, maps[kind]))
        model(*inputs, **given)
    return maps


def fused_difference(model: nn.Module, *inputs: Any, **given: Any) -> float:
    """How far the maps are from the actual computation: the largest |weights × values - output of the fused kernel|.

    The maximum over all layers, heads and tokens of ``model(*inputs, **given)``; about 1e-7 in float32.  Nothing may be
    cached.  Raises TypeError for a module that is none of the three wirings.
    """
    differences = [0.0]
    with torch.no_grad(), ExitStack() as watches:
        for layers in attentions(model).values():
            for layer in layers:
                watches.enter_context(_comparing(layer, differences))
        model(*inputs, **given)
    return max(differences)


def attentions(model: nn.Module) -> dict[str, list[Attention]]:
    """The attention layers of a model by kind, as ``attention_maps`` has them; raises TypeError as that does."""
    layers = {
        name: [layer for layer in stack.modules() if isinstance(layer, Attention)]
        for name, stack in stacks_of(model).items()
    }
    if "decoder" in layers:
        layers["cross"] = [layer for layer in layers["decoder"] if layer.cross]
        layers["decoder"] = [layer for layer in layers["decoder"] if not layer.cross]
    return layers


def stacks_of(model: nn.Module) -> dict[str, Stack]:
    """The stacks of blocks of a model: "self", or "encoder" and "decoder".  Raises TypeError for any other module."""
    stacks: dict[str, Any] = {}
    if isinstance(model, EncoderDecoder):
        stacks = {"encoder": model.encoder, "decoder": model.decoder}
    elif isinstance(model, Encoder | Decoder):
        stacks = {"self": model.stack}
    if not stacks or not all(isinstance(stack, Stack) for stack in stacks.values()):
        what = "an Encoder, a Decoder or an EncoderDecoder of Transformer blocks"
        raise TypeError(f"{type(model).__name__} is not {what}")
    return stacks


@contextmanager
def _watching(layer: Attention, maps: list[Tensor]) -> Iterator[None]:
    """Append the weights of every call to ``maps``."""
    before = layer.attend

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, *rest: Any) -> Tensor:
        rows = q.shape[0] // k.shape[0]  # those that read one source
        keys = k.repeat_interleave(rows, dim=0).repeat_interleave(q.shape[1] // k.shape[1], dim=1)  # (B, H, S, K)
        where = mask if mask is None or len(mask) in (1, len(q)) else mask.repeat_interleave(rows, dim=0)
        if layer.window is not None and mask is None:
            places = torch.arange(q.shape[2], device=q.device)[None]
            where = attention_mask(places, places, causal=causal, window=layer.window)
        maps.append(attention_weights(q, keys, where, causal))
        return before(q, k, v, mask, causal, *rest)

    layer.attend = attend
    try:
        yield
    finally:
        layer.attend = before


@contextmanager
def _comparing(layer: Attention, differences: list[float]) -> Iterator[None]:
    """Append to ``differences``, for every call, the error of weights × values as input of the output projection."""
    maps: list[Tensor] = []
    read: list[Tensor] = []

    def compare(_: nn.Module, given: tuple[Tensor]) -> None:
        width = layer.n_kv_heads * layer.d_head
        values = read.pop()[..., -width:].unflatten(-1, (-1, layer.d_head)).transpose(1, 2)  # (B, G, S, K)
        values = values.repeat_interleave(layer.n_heads // layer.n_kv_heads, dim=1)  # (B, H, S, K)
        plain = (maps.pop() @ values).transpose(1, 2).flatten(2)  # (B, T, H K)
        differences.append(float((plain - given[0]).abs().max()))

    reader = layer.kv if layer.cross else layer.qkv
    hooks = [
        reader.register_forward_hook(lambda _module, _given, result: read.append(result)),
        layer.out.register_forward_pre_hook(compare),
    ]
    try:
        with _watching(layer, maps):
            yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def heads_off(model: nn.Module, heads: Iterable[tuple[str, int, int]]) -> Iterator[None]:
    """Let the model run without some heads: (kind, layer, head) each, as ``attention_maps`` counts them from 0.

    The output of such a head is replaced by zeros before the output projection (Michel et al. 2019).  Raises TypeError
    for a module that is none of the three wirings, and ValueError for a head that the model does not have.
    """
    layers = attentions(model)
    with ExitStack() as hooks:
        for kind, layer, head in heads:
            of_kind = layers.get(kind, [])
            if not (0 <= layer < len(of_kind) and 0 <= head < of_kind[layer].n_heads):
                raise ValueError(f"there is no head {head} in layer {layer} of {kind!r} attention")
            attention = of_kind[layer]
            part = slice(head * attention.d_head, (head + 1) * attention.d_head)
            hooks.callback(attention.out.register_forward_pre_hook(partial(_without, part)).remove)
        yield


def _without(part: slice, _module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    values: Tensor = given[0].clone()  # (B, T, H K)
    values[..., part] = 0
    return (values, *given[1:])
