"""Which tokens a logit depends on: gradient times input (Shrikumar et al. 2016).

Letters: B batch, T length, S source length, D width.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.low_precision import LowPrecisionLinear
from headway.nn.patch_embedding import PatchEmbedding


def gradient_times_input(
    model: nn.Module, *inputs: Any, logit: tuple[int | Tensor, ...], **given: Any
) -> dict[str, Tensor]:
    """The gradient of a logit with respect to each token's vector, times that vector: (B, T), by kind.

    This is the rate at which the logit grows as one token's vector is scaled up; for a model that is linear in its
    tokens the values add up to the logit.  The kind is "self" for an encoder or a decoder, "source" (B, S) and "target"
    (B, T) for an encoder-decoder.  ``logit`` is the index of the logit after the batch axis: (class,) for a classifier,
    (position, token) for a model of tokens; each a number, or one per row, (B,).  Padding gets 0, and so do tokens that
    the position cannot attend to.  The model should be in eval mode.  Raises TypeError for a module that is none of the
    three wirings, for one that reads images, and for one that was brought to a lower precision;
    ValueError for a logit that does not exist.  Where a norm follows a token's vector and nothing is added before, the
    vector after that norm is taken: the length before it changes nothing, so that the gradient would be 0.
    """
    if any(isinstance(part, LowPrecisionLinear) for part in model.modules()):
        raise TypeError("products in a lower precision have no gradients; load the model in float32")
    found: dict[str, Tensor] = {}
    with torch.enable_grad(), ExitStack() as hooks:
        for kind, table in _tables(model).items():

            def cut(_module: nn.Module, _given: Any, result: Tensor, kind: str = kind) -> Tensor:
                found[kind] = result.detach().requires_grad_()  # (B, T, D)
                return found[kind]

            hooks.callback(table.register_forward_hook(cut).remove)
        output = model(*inputs, **given)
        chosen = _chosen(output, logit)
        gradients = torch.autograd.grad(chosen.sum(), list(found.values()), allow_unused=True, materialize_grads=True)
    pairs = zip(found.items(), gradients, strict=True)
    return {kind: (gradient * vectors.detach()).sum(dim=-1) for (kind, vectors), gradient in pairs}


def _tables(model: nn.Module) -> dict[str, nn.Module]:
    if isinstance(model, EncoderDecoder):
        stacks: dict[str, Any] = {"source": model.encoder, "target": model.decoder}
    elif isinstance(model, Encoder | Decoder):
        stacks = {"self": model.stack}
    else:
        raise TypeError(f"{type(model).__name__} is not an Encoder, a Decoder or an EncoderDecoder")
    tables: dict[str, nn.Module] = {}
    for kind, stack in stacks.items():
        if isinstance(stack.embedding, PatchEmbedding):
            raise TypeError("the model reads images, which have no tokens that could be looked up")
        tables[kind] = stack.embedding.norm if _is_normed_alone(stack) else stack.embedding.tokens
    return tables


def _is_normed_alone(stack: Any) -> bool:
    """Whether a norm follows the tokens' vectors, to which nothing was added."""
    config = stack.config
    if not isinstance(config, TransformerConfig) or not config.embedding_norm:
        return False
    return not config.segments and config.position.kind not in ("learned", "sinusoidal")


def _chosen(output: Tensor, logit: tuple[int | Tensor, ...]) -> Tensor:
    """The logit of each row: (B,)."""
    sizes = tuple(output.shape[1:])
    whole = [torch.as_tensor(index) for index in logit]
    if len(whole) != len(sizes) or any(
        bool((index < -size).any() or (index >= size).any()) for index, size in zip(whole, sizes, strict=True)
    ):
        shown = tuple(index.tolist() for index in whole)
        raise ValueError(f"logit {shown} of outputs of shape {sizes}: give one index for each, within it")
    return output[(torch.arange(len(output), device=output.device), *logit)]
