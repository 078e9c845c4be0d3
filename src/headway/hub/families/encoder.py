"""What the encoder families share: a bare class, one with a masked-token head, classifiers of texts and of tokens."""

import re
from collections.abc import Set
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from headway.hub.families.family import Family, Json, check_head, class_count, class_names, pick
from headway.models.config import TransformerConfig
from headway.models.heads import CLASSES, Gives, Pooler, gives, n_outputs
from headway.models.transformer import Encoder

Dropout = tuple[str | None, float | None]


def encoder_classes(name: str) -> dict[Gives, str]:
    """The classes of an encoder family, by what their models give."""
    heads = {Gives.VOCABULARY: "MaskedLM", Gives.ROW: "SequenceClassification", Gives.TOKEN: "TokenClassification"}
    return {Gives.HIDDEN: f"{name}Model", **{result: f"{name}For{head}" for result, head in heads.items()}}


class EncoderFamily(Family):
    """A family of such classes, with the heads that ``head`` makes."""

    wiring = "encoder"

    ONLY: ClassVar[Json] = {
        **{**Family.ONLY, "is_causal": False, "is_encoder_decoder": False, "add_cross_attention": False},
        **{"position_embedding_type": "absolute", "is_decoder": False},
    }
    reads_images: ClassVar[bool] = False
    dropouts: ClassVar[dict[Gives, Dropout]] = dict.fromkeys(CLASSES, ("classifier_dropout", None))
    """for each classifier, their key for its dropout, if any, and the default (None: the model's own dropout)"""
    attention_dropout: ClassVar[str] = "attention_probs_dropout_prob"
    """their key for the dropout of attention weights, which must equal the dropout of everything else"""
    pooler_activation: ClassVar[str | None] = "tanh"
    """the activation of the pooler; None if the configuration specifies it"""
    pools_classes: ClassVar[bool] = False
    """whether the classifier starts with the pooler; otherwise it does not use it"""
    bare_pools: ClassVar[bool] = False
    """whether the bare class has a pooler, which ``transformers`` initialises at random if the files have none"""

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        result, config = self.gives(theirs), self.config(theirs)
        model = self.encoder(config, theirs)
        if result in CLASSES:
            dropout = _dropout(theirs, config, *self.dropouts[result])
            model.head = self.head(result, config, class_count(theirs), dropout)
        else:
            model.head = self.head(result, config, model.stack.embedding.tokens)
            model.pooler = self.pooler(config, theirs) if f"{self.prefix}pooler.dense.weight" in names else None
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
        result, dropout, names = gives(model), {self.attention_dropout: model.config.dropout}, {}
        if result in CLASSES:
            names, head = class_names(n_outputs(model)), cast(Any, model.head)
            if (key := self.dropouts[result][0]) is not None:
                dropout[key] = head.dropout.p
        return {"architectures": [self.classes[result]], **dropout, **names}

    def stored(self, weights: dict[str, Tensor], theirs: Json, config: TransformerConfig) -> dict[str, Tensor]:
        """With a pooler for the class that has one, zeros if the model has none; without a pooler for the others."""
        result, name, width = self.gives(theirs), f"{self.prefix}pooler.dense", config.d_model
        if result is Gives.HIDDEN:
            empty = {f"{name}.weight": torch.zeros(width, width), f"{name}.bias": torch.zeros(width)}
            return {**(empty if self.bare_pools else {}), **weights}
        if result is Gives.ROW and self.pools_classes:
            return weights
        return {key: tensor for key, tensor in weights.items() if not key.startswith(f"{name}.")}

    def settle(self, model: nn.Module) -> None:
        pooler = getattr(model, "pooler", None)
        if pooler is not None and not any(p.any() for p in pooler.parameters()):
            model.pooler = None  # type: ignore[assignment]

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        """The ignored names, including a pooler in a classifier's file whose class does not use it."""
        if self.gives(theirs) not in (Gives.TOKEN, *(() if self.pools_classes else (Gives.ROW,))):
            return self.ignored
        return (*self.ignored, re.escape(self.prefix) + r"pooler\..*")


def _dropout(theirs: Json, config: TransformerConfig, key: str | None, default: float | None) -> float:
    """A head's dropout by its key, if it has one, and by what it is where that is left out (None: the model's own)."""
    usual = config.dropout if default is None else default
    found: float = usual if key is None else pick(theirs, key, float, usual)
    return found
