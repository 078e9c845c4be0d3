"""What the encoder families share: a bare class, one with a masked-token head, classifiers of texts and of tokens."""

import re
from collections.abc import Set
from typing import ClassVar

import torch
from torch import Tensor, nn

from headway.hub.families.family import Family, Json, architecture, check_head, class_count, class_names, pick
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, Pooler, TokenClassificationHead
from headway.models.transformer import Encoder


class EncoderFamily(Family):
    """A family of such classes, with the heads that ``classification_head`` and ``masked_token_head`` make."""

    ONLY: ClassVar[Json] = {
        **{**Family.ONLY, "is_causal": False, "is_encoder_decoder": False, "add_cross_attention": False},
        **{"position_embedding_type": "absolute", "is_decoder": False},
    }
    reads_images: ClassVar[bool] = False
    tagger_dropout: ClassVar[tuple[str | None, float | None]] = ("classifier_dropout", None)
    """their key for its dropout, if any, and what it is where that is left out (None: the model's own)"""
    head_dropout: ClassVar[tuple[str | None, float | None]] = ("classifier_dropout", None)
    """their key for the classifier's dropout, if any, and its default (None: the model's own dropout)"""
    attention_dropout: ClassVar[str] = "attention_probs_dropout_prob"
    """their key for the dropout of attention weights, which must equal the dropout of everything else"""
    pooler_activation: ClassVar[str | None] = "tanh"
    """the activation of the pooler; None if the configuration specifies it"""
    pools_classes: ClassVar[bool] = False
    """whether the classifier starts with the pooler; otherwise it does not use it"""
    bare_pools: ClassVar[bool] = False
    """whether the bare class has a pooler, which ``transformers`` initialises at random if the files have none"""

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        kind, config = architecture(theirs, self.classes), self.config(theirs)
        model = self.encoder(config, theirs)
        if kind == self.classifier:
            dropout = _dropout(theirs, config, *self.head_dropout)
            model.head = self.classification_head(config, class_count(theirs), dropout)
        elif kind == self.tagger:
            dropout = _dropout(theirs, config, *self.tagger_dropout)
            model.head = self.token_classification_head(config, class_count(theirs), dropout)
        elif kind != self.bare:
            model.head = self.masked_token_head(config, model.stack.embedding.tokens)
        if kind not in (self.classifier, self.tagger) and f"{self.prefix}pooler.dense.weight" in names:
            model.pooler = self.pooler(config, theirs)
        return model

    def encoder(self, config: TransformerConfig, theirs: Json) -> Encoder:
        """The model without a head."""
        return Encoder(config)

    def pooler(self, config: TransformerConfig, theirs: Json) -> Pooler:
        """The family's pooler."""
        return Pooler(config)

    def unquirk(self, model: nn.Module) -> Json | None:
        if not isinstance(model, Encoder) or (model.patches is not None) != self.reads_images:
            return None
        check_head(self, model)
        ending = getattr(model.pooler, "activation", self.pooler_activation)
        if self.pooler_activation is not None and ending != self.pooler_activation:
            raise ValueError(f"its pooler ends with {self.pooler_activation}, not {ending}")
        dropout = {self.attention_dropout: model.config.dropout}
        if isinstance(model.head, ClassificationHead | TokenClassificationHead):
            tags = isinstance(model.head, TokenClassificationHead)
            kind, (key, _) = (self.tagger, self.tagger_dropout) if tags else (self.classifier, self.head_dropout)
            if key is not None:
                dropout[key] = model.head.dropout.p
            return {"architectures": [kind], **dropout, **class_names(model.head.out.out_features)}
        return {"architectures": [self.bare if model.head is None else self.masked], **dropout}

    def stored(self, weights: dict[str, Tensor], theirs: Json, config: TransformerConfig) -> dict[str, Tensor]:
        """With a pooler for the class that has one, zeros if the model has none; without a pooler for the others."""
        kind, name, width = architecture(theirs, self.classes), f"{self.prefix}pooler.dense", config.d_model
        if kind == self.bare:
            empty = {f"{name}.weight": torch.zeros(width, width), f"{name}.bias": torch.zeros(width)}
            return {**(empty if self.bare_pools else {}), **weights}
        if kind == self.classifier and self.pools_classes:
            return weights
        return {key: tensor for key, tensor in weights.items() if not key.startswith(f"{name}.")}

    def settle(self, model: nn.Module) -> None:
        pooler = getattr(model, "pooler", None)
        if pooler is not None and not any(p.any() for p in pooler.parameters()):
            model.pooler = None  # type: ignore[assignment]

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        """The ignored names, including a pooler in a classifier's file whose class does not use it."""
        kind = architecture(theirs, self.classes)
        if kind != self.tagger and (self.pools_classes or kind != self.classifier):
            return self.ignored
        return (*self.ignored, re.escape(self.prefix) + r"pooler\..*")


def _dropout(theirs: Json, config: TransformerConfig, key: str | None, default: float | None) -> float:
    """A head's dropout by its key, if it has one, and by what it is where that is left out (None: the model's own)."""
    usual = config.dropout if default is None else default
    found: float = usual if key is None else pick(theirs, key, float, usual)
    return found
