"""Heads: from contextual vectors to a model's output.

Letters: B batch, T length, D width, V vocabulary, C classes.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from headway.models.config import TransformerConfig
from headway.nn.dropout import Dropout
from headway.nn.feedforward import ACTIVATIONS
from headway.nn.norm import LayerNorm, RMSNorm

Pooling = Literal["mean", "first", "last"]


def make_norm(config: TransformerConfig, width: int | None = None) -> nn.Module:
    """The norm of the configuration, over d_model or another width."""
    width = width or config.d_model
    if config.norm == "rmsnorm":
        return RMSNorm(width, config.norm_eps, weight=config.norm_parameters != "none")
    both = config.norm_parameters == "both"
    return LayerNorm(width, config.norm_eps, weight=config.norm_parameters != "none", bias=both)


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
    return x[torch.arange(len(x), device=x.device), place]


class TokenHead(nn.Module):
    """Logits over the vocabulary: x Eᵀ (+ bias), E is the token embedding if tied, else its own matrix."""

    def __init__(self, config: TransformerConfig, embedding: nn.Embedding):
        super().__init__()
        self.matrix = nn.Linear(config.d_model, config.vocab_size, bias="head" in config.bias)
        if config.tied:
            self.matrix.weight = embedding.weight
        self.softcap = config.logit_softcap

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, V).  The mask is not used: every position has logits of its own."""
        logits = self.matrix(x)
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


class VectorHead(nn.Module):
    """The vectors unchanged, for a decoder without a head (GPT2Model, LlamaModel).  It has no weights."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return x


class MaskedTokenHead(nn.Module):
    """BERT's masked-token head: a dense layer, its activation (default: the model's own) and norm, then logits."""

    def __init__(
        self,
        config: TransformerConfig,
        embedding: nn.Embedding,
        *,
        activation: str | None = None,
        dense_bias: bool = True,
    ):
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model, bias=dense_bias)
        self.activation = activation or config.activation
        self.norm = make_norm(config)
        self.token = TokenHead(config, embedding)

    def forward(self, x: Tensor, mask: Tensor | None = None, chosen: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, V); with ``chosen``, bool (B, T), only the N positions where it is true: (N, V)."""
        x = x if chosen is None else x[chosen]
        return self.token(self.norm(ACTIVATIONS[self.activation](self.dense(x))))


class Pooler(nn.Module):
    """BERT's pooler: a dense layer and its activation on the first token's vector."""

    def __init__(self, config: TransformerConfig, activation: str = "tanh"):
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = activation

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, D)."""
        return ACTIVATIONS[self.activation](self.dense(pool(x, mask, "first")))


class ClassificationHead(nn.Module):
    """Pool, a dense layer with its activation (and norm), then one logit per class.

    ``dense`` false omits the dense layer, its activation and its norm (ViT, GPT-2).  ``normalise`` first scales the
    pooled vector to length 1: with ``dense`` false that is a classifier on top of a sentence embedding.
    """

    def __init__(
        self,
        config: TransformerConfig,
        n_classes: int,
        *,
        pooling: Pooling = "mean",
        activation: str = "gelu",
        norm: Callable[[], nn.Module] | None = None,
        dense: bool = True,
        dense_bias: bool = False,
        out_bias: bool = True,
        dropout: float = 0.0,
        normalise: bool = False,
    ):
        super().__init__()
        if n_classes < 2:
            raise ValueError(f"{n_classes} classes: a classifier needs at least 2")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation {activation!r} is not one of {', '.join(ACTIVATIONS)}")
        self.pooling: Pooling = pooling
        self.dense = nn.Linear(config.d_model, config.d_model, bias=dense_bias) if dense else None
        self.activation = activation
        self.norm = norm() if norm is not None else nn.Identity()
        self.dropout = Dropout(dropout)
        self.out = nn.Linear(config.d_model, n_classes, bias=out_bias)
        self.normalise = normalise

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, C)."""
        return self.out(self.dropout(self.vector(x, mask)))

    def vector(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The input of the last matrix: (B, T, D) -> (B, D)."""
        x = pool(x, mask, self.pooling)
        x = nn.functional.normalize(x, dim=-1) if self.normalise else x
        if self.dense is not None:
            x = self.norm(ACTIVATIONS[self.activation](self.dense(x)))
        return x


class TokenClassificationHead(nn.Module):
    """One logit for each class and token: a dense layer with its activation and norm where ``dense``, then a matrix.

    BERT's, RoBERTa's and DistilBERT's have no dense layer; ModernBERT's has the one of its other heads.
    """

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
        if n_classes < 2:
            raise ValueError(f"{n_classes} classes: a classifier needs at least 2")
        self.dense = nn.Linear(config.d_model, config.d_model, bias=dense_bias) if dense else None
        self.activation = activation
        self.norm = make_norm(config) if dense else nn.Identity()
        self.dropout = Dropout(dropout)
        self.out = nn.Linear(config.d_model, n_classes)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, C).  The mask is not needed: every position has logits of its own."""
        if self.dense is not None:
            x = self.norm(ACTIVATIONS[self.activation](self.dense(x)))
        return self.out(self.dropout(x))


class PoolingHead(nn.Module):
    """One vector per sequence, for comparing texts by cosine: pool, then ``dense``, then scale to length 1.

    ``dense`` (nn.Linear, D to E features), its activation and the scaling are optional.
    """

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
