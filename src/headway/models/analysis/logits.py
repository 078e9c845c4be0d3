"""Which tokens a logit depends on, and what a model would predict after each of its layers.

Letters: B batch, T length, S source length, D width, V vocabulary, C classes, L layers.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.analysis.maps import stacks_of
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, gives
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.low_precision import LowPrecisionLinear
from headway.nn.patch_embedding import PatchEmbedding


def gradient_times_input(
    model: nn.Module, *inputs: Any, logit: tuple[int | Tensor, ...], **given: Any
) -> dict[str, Tensor]:
    """The gradient of a logit with respect to each token's vector, times that vector: (B, T), by kind.

    (Gradient times input: Shrikumar et al. 2016.)

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
    cuts: dict[str, Tensor] = {}
    with torch.enable_grad(), ExitStack() as hooks:
        for kind, table in _tables(model).items():

            def cut(_module: nn.Module, _given: Any, result: Tensor, kind: str = kind) -> Tensor:
                cuts[kind] = result.detach().requires_grad_()  # (B, T, D)
                return cuts[kind]

            hooks.callback(table.register_forward_hook(cut).remove)
        output = model(*inputs, **given)
        chosen = _chosen(output, logit)
        gradients = torch.autograd.grad(chosen.sum(), list(cuts.values()), allow_unused=True, materialize_grads=True)
    pairs = zip(cuts.items(), gradients, strict=True)
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
        config, normed = stack.config, False  # whether a norm follows the tokens' vectors, to which nothing was added
        if isinstance(config, TransformerConfig) and config.embedding_norm and not config.segments:
            normed = config.position.kind not in ("learned", "sinusoidal")
        tables[kind] = stack.embedding.norm if normed else stack.embedding.tokens
    return tables


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
