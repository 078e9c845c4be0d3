"""Heads: from contextual vectors to a model's output.

Letters: B batch, T length, D width, V vocabulary, C classes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from headway.models.config import TransformerConfig
from headway.nn.activations import ACTIVATIONS
from headway.nn.dropout import Dropout
from headway.nn.linear import Linear
from headway.nn.norm import LayerNorm, RMSNorm

Pooling = Literal["mean", "first", "last"]


class Gives(StrEnum):
    """What a model gives: what its head makes of the vectors of the tokens, or, without a head, these."""

    HIDDEN = "hidden"
    """vectors of tokens (B, T, D)"""
    VOCABULARY = "vocabulary"
    """logits over the vocabulary for each token (B, T, V)"""
    TOKEN = "token"
    """numbers for each token (B, T, C)"""
    ROW = "row"
    """numbers for each sequence (B, C)"""
    VECTOR = "vector"
    """a vector for each sequence (B, D)"""
    OTHER = "other"
    """what only the author of a head knows"""

    @property
    def each_token(self) -> bool:
        """Whether every token has an output of its own."""
        return self not in (Gives.ROW, Gives.VECTOR)


CLASSES = (Gives.TOKEN, Gives.ROW)
"""What classifiers give."""


def gives(model: nn.Module) -> Gives:
    """What a model gives, by its head."""
    head: Any = getattr(model, "head", None)
    return Gives.HIDDEN if head is None else getattr(head, "gives", Gives.OTHER)


def n_outputs(model: nn.Module) -> int:
    """How many numbers a classifier gives for each sequence or token; 0 for other models."""
    head: Any = getattr(model, "head", None)
    return int(head.out.out_features) if gives(model) in CLASSES else 0


def make_norm(config: TransformerConfig, width: int | None = None) -> nn.Module:
    """The norm of the configuration, over d_model or another width."""
    width = width or config.d_model
    if config.norm == "rmsnorm":
        return RMSNorm(width, config.norm_eps, weight=config.norm_parameters != "none")
    both = config.norm_parameters == "both"
    return LayerNorm(width, config.norm_eps, weight=config.norm_parameters != "none", bias=both)


def norm_size(config: TransformerConfig, width: int | None = None) -> int:
    """The number of weights of that norm."""
    width = width or config.d_model
    if config.norm_parameters == "none":
        return 0
    return 2 * width if config.norm == "layernorm" and config.norm_parameters == "both" else width


def pool(x: Tensor, mask: Tensor | None, how: Pooling) -> Tensor:
    """One vector per sequence: (B, T, D) -> (B, D), over real tokens only.

    "mean" of all, "first" ([CLS]) or "last"; ``mask`` (B, T) is true where there is a token.
    """
    if how not in ("mean", "first", "last"):
        raise ValueError(f"pooling is {how!r}, but must be mean, first or last")
    if mask is None:
        return x.mean(dim=1) if how == "mean" else x[:, 0 if how == "first" else -1]
    if how == "mean":
        weights = mask.to(x.dtype)[..., None]  # (B, T, 1)
        return (x * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
    places = torch.arange(mask.shape[1], device=mask.device)
    place = (places * mask).argmax(dim=1) if how == "last" else mask.long().argmax(dim=1)  # (B,)
    return x[torch.arange(x.shape[0], device=x.device), place]


@dataclass(frozen=True)
class HeadSize:
    """What a head adds to a model, in numbers of weights."""

    matrices: int = 0
    """entries of its matrices: each is a multiply-add for each vector that it reads"""
    biases: int = 0
    norms: int = 0
    shared: int = 0
    """entries of its matrices that are the token embedding's"""
    gives: Gives = Gives.VOCABULARY
    """what a model with it gives"""
    wirings: tuple[str, ...] = ("encoder", "decoder", "encoder-decoder")
    """the wirings that it is for"""


class Head(nn.Module):
    """A part of a model that turns contextual vectors into its output, and knows its own size."""

    gives: ClassVar[Gives] = Gives.VOCABULARY
    wirings: ClassVar[tuple[str, ...]] = HeadSize.wirings

    def size(self) -> HeadSize:
        """Its size, counted."""
        layers = [layer for layer in self.modules() if isinstance(layer, nn.Linear)]
        matrices = sum(layer.weight.numel() for layer in layers)
        biases = sum(layer.bias.numel() for layer in layers if layer.bias is not None)
        norms = sum(weight.numel() for weight in self.parameters()) - matrices - biases
        tied = [head for head in self.modules() if isinstance(head, TokenHead) and head.tied]
        shared = sum(head.matrix.weight.numel() for head in tied)
        return HeadSize(matrices, biases, norms, shared, self.gives, self.wirings)


class TokenHead(Head):
    """Logits over the vocabulary: x Eᵀ (+ bias), E is the token embedding if tied, else its own matrix."""

    def __init__(self, config: TransformerConfig, embedding: nn.Embedding):
        super().__init__()
        self.matrix = Linear(config.d_model, config.vocab_size, bias="head" in config.bias)
        self.tied = config.tied
        if config.tied:
            self.matrix.weight = embedding.weight
        self.softcap = config.logit_softcap

    @staticmethod
    def size_of(config: TransformerConfig) -> HeadSize:
        """The size of such a head."""
        matrix = config.d_model * config.vocab_size
        biases = config.vocab_size if "head" in config.bias else 0
        return HeadSize(matrix, biases, shared=matrix if config.tied else 0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, V).  The mask is not used: every position has logits of its own."""
        logits = self.matrix(x)
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


class VectorHead(Head):
    """The vectors unchanged, for a decoder without a head (GPT2Model, LlamaModel).  It has no weights."""

    gives = Gives.HIDDEN

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return x


class MaskedTokenHead(Head):
    """BERT's masked-token head: a dense layer, its activation (default: the model's own) and norm, then logits."""

    wirings = ("encoder",)

    def __init__(
        self,
        config: TransformerConfig,
        embedding: nn.Embedding,
        *,
        activation: str | None = None,
        dense_bias: bool = True,
    ):
        super().__init__()
        self.dense = Linear(config.d_model, config.d_model, bias=dense_bias)
        self.activation = activation or config.activation
        self.norm = make_norm(config)
        self.token = TokenHead(config, embedding)

    @classmethod
    def size_of(cls, config: TransformerConfig, *, dense_bias: bool = True) -> HeadSize:
        """The size of such a head."""
        token, width = TokenHead.size_of(config), config.d_model
        biases = token.biases + dense_bias * width
        return HeadSize(token.matrices + width**2, biases, norm_size(config), token.shared, wirings=cls.wirings)

    def forward(self, x: Tensor, mask: Tensor | None = None, chosen: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, V); with ``chosen``, bool (B, T), only the N positions where it is true: (N, V)."""
        x = x if chosen is None else x[chosen]
        return self.token(self.norm(ACTIVATIONS[self.activation](self.dense(x))))


class Pooler(nn.Module):
    """BERT's pooler: a dense layer and its activation on the first token's vector."""

    def __init__(self, config: TransformerConfig, activation: str = "tanh"):
        super().__init__()
        self.dense = Linear(config.d_model, config.d_model)
        self.activation = activation

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, D)."""
        return ACTIVATIONS[self.activation](self.dense(pool(x, mask, "first")))


class ClassificationHead(Head):
    """Pool, a dense layer with its activation (and norm), then one logit per class.

    ``dense`` false omits the dense layer, its activation and its norm (ViT, GPT-2).  ``normalise`` first scales the
    pooled vector to length 1: with ``dense`` false that is a classifier on top of a sentence embedding.
    """

    gives = Gives.ROW
    wirings = ("encoder", "decoder")

    def __init__(
        self,
        config: TransformerConfig,
        n_classes: int,
        *,
        pooling: Pooling = "mean",
        activation: str = "gelu",
        norm: bool = False,
        dense: bool = True,
        dense_bias: bool = False,
        out_bias: bool = True,
        dropout: float = 0.0,
        normalise: bool = False,
    ):
        super().__init__()
        if n_classes < 1:
            raise ValueError(f"{n_classes} classes: a classifier needs at least 1, which is a number")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation {activation!r} is not one of {', '.join(ACTIVATIONS)}")
        self.pooling: Pooling = pooling
        self.dense = Linear(config.d_model, config.d_model, bias=dense_bias) if dense else None
        self.activation = activation
        self.norm = make_norm(config) if norm else nn.Identity()
        self.dropout = Dropout(dropout)
        self.out = Linear(config.d_model, n_classes, bias=out_bias)
        self.normalise = normalise
        self.scale: Tensor | None
        self.offset: Tensor | None
        self.register_buffer("scale", None, persistent=False)
        self.register_buffer("offset", None, persistent=False)

    def set_scale(self, scale: Tensor | None, offset: Tensor | None) -> None:
        """Multiply each output with its ``scale`` (C,) and add its ``offset`` (C,): that of its own unit."""
        self.scale, self.offset = scale, offset

    @classmethod
    def size_of(cls, config: TransformerConfig, n_classes: int, *, dense: bool = True) -> HeadSize:
        """The size of such a head; a ``dense`` layer has the model's norm and no bias."""
        width = config.d_model
        matrices, norms = (width**2, norm_size(config)) if dense else (0, 0)
        matrices += width * n_classes
        return HeadSize(matrices, n_classes, norms, gives=cls.gives, wirings=cls.wirings)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, C).  What has a unit of its own is computed in float32 under autocast too."""
        x = self.dropout(self.vector(x, mask))
        in_units = self.out.out_features == 1 or self.scale is not None
        if in_units and torch.is_autocast_enabled(x.device.type):
            with torch.autocast(x.device.type, enabled=False):
                out = self.out(x.float())
                return out if self.scale is None else out * self.scale + self.offset
        out = self.out(x)
        return out if self.scale is None else out * self.scale + self.offset

    def vector(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The input of the last matrix: (B, T, D) -> (B, D)."""
        x = pool(x, mask, self.pooling)
        x = nn.functional.normalize(x, dim=-1) if self.normalise else x
        if self.dense is not None:
            x = self.norm(ACTIVATIONS[self.activation](self.dense(x)))
        return x


class TokenClassificationHead(Head):
    """One logit for each class and token: a dense layer with its activation and norm where ``dense``, then a matrix.

    BERT's, RoBERTa's and DistilBERT's have no dense layer; ModernBERT's has the one of its other heads.
    """

    gives = Gives.TOKEN
    wirings = ("encoder",)

    def __init__(
        self,
        config: TransformerConfig,
        n_classes: int,
        *,
        dense: bool = False,
        activation: str = "gelu",
        dense_bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        if n_classes < 1:
            raise ValueError(f"{n_classes} classes: a classifier needs at least 1, which is a number")
        self.dense = Linear(config.d_model, config.d_model, bias=dense_bias) if dense else None
        self.activation = activation
        self.norm = make_norm(config) if dense else nn.Identity()
        self.dropout = Dropout(dropout)
        self.out = Linear(config.d_model, n_classes)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, C).  The mask is not needed: every position has logits of its own."""
        if self.dense is not None:
            x = self.norm(ACTIVATIONS[self.activation](self.dense(x)))
        return self.out(self.dropout(x))


class PoolingHead(Head):
    """One vector per sequence, for comparing texts by cosine: pool, then ``dense``, then scale to length 1.

    ``dense`` (nn.Linear, D to E features), its activation and the scaling are optional.
    """

    gives = Gives.VECTOR
    wirings = ("encoder",)

    def __init__(
        self,
        pooling: Pooling = "mean",
        normalise: bool = True,
        *,
        dense: nn.Linear | None = None,
        activation: str | None = None,
    ):
        super().__init__()
        if activation is not None and (dense is None or activation not in ACTIVATIONS):
            raise ValueError(f"activation {activation!r} must be one of {', '.join(ACTIVATIONS)}, after a dense layer")
        self.pooling: Pooling = pooling
        self.normalise = normalise
        self.dense = dense
        self.activation = activation

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, D), or (B, E)."""
        x = pool(x, mask, self.pooling)
        if self.dense is not None:
            x = self.dense(x) if self.activation is None else ACTIVATIONS[self.activation](self.dense(x))
        return nn.functional.normalize(x, dim=-1) if self.normalise else x


HEADS: dict[str, dict[Gives, type[Head]]] = {
    "encoder": {
        Gives.VOCABULARY: MaskedTokenHead,
        Gives.TOKEN: TokenClassificationHead,
        Gives.ROW: ClassificationHead,
        Gives.VECTOR: PoolingHead,
    },
    "decoder": {Gives.HIDDEN: VectorHead, Gives.VOCABULARY: TokenHead, Gives.ROW: ClassificationHead},
    "encoder-decoder": {Gives.HIDDEN: VectorHead, Gives.VOCABULARY: TokenHead},
}
"""The head of a model of each wiring, by what it gives.  An encoder that gives the vectors of its tokens has none."""
