"""Prepare a pretrained model for another task: its stack unchanged, with its family's head for the task.

Which weights a head reuses depends on the family: BERT's classifier starts with its pooler, ModernBERT's with the dense
layer and the norm of its masked-token head; the rest is drawn from a normal distribution with standard deviation 0.02,
as BERT's weights were (Devlin et al. 2018), and biases start at zero.

Most families' classifiers read only the first token's vector.  For them to read the mean, an additional block, in the
family's own post-norm layout, brings the mean m of the T token vectors x_t to every position, including the first:

    queries and keys are 0              every token has the weight 1/T, so attention computes m
    values are I, outputs are S·I       norm(x_t + S m) = norm(m) except for x_t / S, since norms ignore the scale
    the feed-forward layer is 0         norm(norm(m)) · g = g (m - its average) / its standard deviation =: v

The classifier's dense layer is a multiple of the identity, on which its activation is nearly linear, so that its last
matrix reads v: a linear classifier on normalised mean vectors, with weights that every program for the family loads.  A
family whose classifier can pool the mean itself (ModernBERT) needs no block.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from headway.hub.directory import family_of
from headway.hub.families.family import Family
from headway.hub.kept_entries import CONFIG, GENERATION, LABELS, kept
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, Gives, gives, n_outputs
from headway.models.transformer import Decoder, Encoder, block

Head = TypeVar("Head", bound=nn.Module)
Classified = TypeVar("Classified", Encoder, Decoder)
STANDARD_DEVIATION = 0.02


def for_classification(
    model: Classified, n_classes: int, *, dropout: float = 0.0, seed: int = 0, mean: bool = False
) -> Classified:
    """Put a classifier of the family's own structure on an encoder or a decoder, in place, and return the model.

    The model may have any head or none; (B, T) ids then give (B, C) logits, and the family can save it.  With ``mean``
    an encoder is classified by the normalised mean of its vectors (``hub.fine_tune``), which may add a block to it,
    and only the last matrix of its head is trained.  A decoder is classified by the last token's vector, the only one
    that has seen the whole text.  ``dropout`` is only the head's; names of classes that came with the model are
    discarded.  Raises ValueError if no family can express the model, or if the family has no such classifier.
    """
    head = _drawn(lambda: classifier_of(model, n_classes, dropout), seed)
    if isinstance(model, Decoder):
        getattr(model, "kept", {}).pop(GENERATION, None)
    elif mean:
        read_mean(model, head)
        model.pooler = None
    else:
        encoder_family(model).reuse(model, head)
    return _forget_labels(_with_head(model, head))


def named_classes(model: Any, result: Gives) -> list[str]:
    """The classes of a loaded model, in order, by the names in its directory.

    Nothing for a model that gives something else, and for one whose head is fitted to normalised vectors.
    """
    named = kept(model, LABELS[0])
    if not isinstance(named, dict) or gives(model) is not result or getattr(model.head, "normalise", False):
        return []
    return [str(named.get(str(i), named.get(i))) for i in range(n_outputs(model))]


def classifier_of(model: Encoder | Decoder, n_classes: int, dropout: float = 0.0) -> ClassificationHead:
    """A new classifier of the structure of the model's family.  Raises ValueError if there is none."""
    family = encoder_family(model) if isinstance(model, Encoder) else family_of(model)[0]
    return family.head(Gives.ROW, model.config, n_classes, dropout)


def adds_layer(model: Encoder) -> bool:
    """Whether ``for_classification`` with ``mean`` adds a block to an encoder.  Raises ValueError as it does."""
    with torch.device("meta"):
        return needs_layer(model.config, classifier_of(model, 2))


def pools_mean(model: Any) -> bool:
    """Whether a model's head pools its vectors by their mean, as a sentence encoder's does."""
    head: Any = model.head
    return isinstance(model, Encoder) and gives(model) is Gives.VECTOR and head.pooling == "mean"


def for_token_classification(model: Encoder, n_classes: int, *, dropout: float = 0.0, seed: int = 0) -> Encoder:
    """Put a classifier of tokens of the family's own shape on an encoder of any class, in place, and return it.

    It may come with any head or none; (B, T) ids then give (B, T, C) logits, and the family can save it.  A dense layer
    and a norm that the family has in all its heads are taken over.  ``dropout`` is the head's alone; names of classes
    that came with the model are forgotten.  Raises ValueError where no family can express the encoder, or where the
    family has no such classifier.
    """
    family = encoder_family(model)
    head = _drawn(lambda: family.head(Gives.TOKEN, model.config, n_classes, dropout), seed)
    family.reuse(model, head)
    return _forget_labels(_with_head(model, head))


def for_masked_tokens(model: Encoder, *, seed: int = 0) -> Encoder:
    """Put a masked-token head of the family's own structure on an encoder, in place, and return the encoder.

    An existing masked-token head is kept with its matrix; a new one is tied to the token embedding.  (B, T) ids then
    give (B, T, V) logits.  A pooler is kept for a later classifier; the files of such a model do not contain it.
    Raises ValueError if no family can express the encoder, and for one that reads images.
    """
    family = encoder_family(model)
    if gives(model) is Gives.VOCABULARY:
        return model
    config, tokens = model.config.but(tied=True), model.stack.embedding.tokens
    head = _drawn(lambda: family.head(Gives.VOCABULARY, config, tokens), seed, tokens.weight)
    model.config = model.stack.config = config
    return _with_head(model, head)


def encoder_family(model: Encoder) -> Family:
    """The family that expresses an encoder, whatever its head.  Raises ValueError if there is none."""
    if not isinstance(model, Encoder):
        raise ValueError(f"a {type(model).__name__} is not an encoder: it takes no other head")
    head, model.head = model.head, None
    try:
        return family_of(model)[0]
    finally:
        model.head = head


def _forget_labels(model: Classified) -> Classified:
    for name in (*LABELS, "problem_type", "thresholds"):
        getattr(model, "kept", {}).get(CONFIG, {}).pop(name, None)
    return model


def _with_head(model: Classified, head: nn.Module) -> Classified:
    weight = next(model.parameters())
    model.head = head.to(weight.device, weight.dtype).train(model.training)
    return model


def _drawn(make: Callable[[], Head], seed: int, *kept: Tensor) -> Head:
    """A new head, its matrices drawn from a separate generator; ``kept`` are the ones that belong to the model."""
    with torch.random.fork_rng(devices=[]):  # torch's own initial weights are overwritten; keep its generator unchanged
        head = make()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in (module for module in head.modules() if isinstance(module, nn.Linear)):
            if not any(layer.weight is weight for weight in kept):
                layer.weight.normal_(0.0, STANDARD_DEVIATION, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()
    return head


SCALE = 256.0
"""S: less than a hundredth of each token's own vector is left, and the sum fits into 16-bit numbers."""
SPREAD = 0.2
"""g, the standard deviation of the input of the classifier's last matrix."""
SMOOTH = (1 / 16, 0.0)
PASSES = {"tanh": (1.0, 0.0), "relu": (1.0, 1.0), "gelu": SMOOTH, "gelu_tanh": SMOOTH, "silu": SMOOTH}
"""Activations -> the factor and the shift of their input that make them nearly linear."""


def needs_layer(config: TransformerConfig, head: ClassificationHead) -> bool:
    """Whether this classifier needs another block to read a mean.  Raises ValueError if no block can do it."""
    if head.pooling == "mean":
        return False
    if config.norm_order != "post" or head.dense is None or head.activation not in PASSES:
        raise ValueError("the mean of token vectors cannot be put into this family's classifier")
    return True


def with_block(config: TransformerConfig) -> TransformerConfig:
    """The configuration including the block."""
    window = (*config.window, None) if isinstance(config.window, tuple) else config.window
    return config.but(n_layers=config.n_layers + 1, window=window)


def read_mean(model: Encoder, head: ClassificationHead) -> None:
    """Make a new ``head`` of the model's family read the mean of the token vectors, in place; this may add a block.

    The block and the dense layer are frozen, so that the mean stays a mean; ``head.out`` and everything below are
    trained.
    """
    if needs_layer(model.config, head):
        _append_block(model)
    dense = head.dense
    if dense is None:
        return
    multiple, shift = PASSES[head.activation]
    with torch.no_grad():
        dense.weight.copy_(multiple * torch.eye(len(dense.weight)))
        if dense.bias is not None:
            dense.bias.fill_(shift)
        for p in head.norm.parameters():
            p.fill_(SPREAD if p is head.norm.weight else 0.0)
    dense.requires_grad_(False)
    head.norm.requires_grad_(False)


def shift_of(head: ClassificationHead) -> float:
    """What the dense layer of such a head adds to every input feature of ``head.out``."""
    return PASSES[head.activation][1] if isinstance(head.norm, nn.Identity) else 0.0


def has_block(model: nn.Module) -> bool:
    """Whether the last block of an encoder is one that ``read_mean`` added: its queries and keys are all 0."""
    if not isinstance(model, Encoder) or model.config.norm_order != "post":
        return False
    qkv = dict(model.stack.blocks[-1].named_modules()).get("attention.layer.qkv")
    return isinstance(qkv, nn.Linear) and not qkv.weight.is_meta and not qkv.weight[: -model.config.d_model].any()


def _append_block(model: Encoder) -> None:
    config, weight = with_block(model.config), next(model.parameters())
    with torch.random.fork_rng(devices=[]):  # torch's own initial weights are overwritten; keep its generator unchanged
        new: Any = block(config, config.n_layers - 1, None).to(weight.device, weight.dtype).train(model.training)
    identity = torch.eye(config.d_model)
    with torch.no_grad():
        for p in (*new.attention.layer.parameters(), *new.feedforward.layer.parameters()):
            p.zero_()
        new.attention.layer.qkv.weight[-config.d_model :] = identity  # queries, keys, values
        new.attention.layer.out.weight.copy_(SCALE * identity)
        new.feedforward.norm.weight.fill_(SPREAD)
    new.requires_grad_(False)
    model.config = model.stack.config = config
    model.stack.blocks.append(new)
    model.stack.windows.append(config.layer_window(config.n_layers - 1))
