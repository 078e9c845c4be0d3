"""BERT (Devlin et al. 2018): an encoder with learned positions and segments, normalised after each residual.

Quirks: the vector of the first token goes through a pooler, which the classifier too begins with; old files hold the
next-sentence head and position numbers that are computed here.
"""

from collections.abc import Set
from typing import Any, ClassVar

from torch import nn

from headway.hub.families.family import (
    Family,
    Json,
    architecture,
    class_count,
    class_names,
    pick,
    refuse,
)
from headway.hub.table import Row, layers, row, stacked
from headway.models.heads import ClassificationHead, MaskedTokenHead, Pooler
from headway.models.transformer import Encoder


class Bert(Family):
    """BertModel, BertForMaskedLM and BertForSequenceClassification."""

    model_type = "bert"
    classes = ("BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForPreTraining")
    bare = "BertModel"
    prefix = "bert."
    SAME: ClassVar = {
        "vocab_size": ("vocab_size", 30522),
        "hidden_size": ("d_model", 768),
        "num_hidden_layers": ("n_layers", 12),
        "num_attention_heads": ("n_heads", 12),
        "intermediate_size": ("d_ff", 3072),
        "max_position_embeddings": ("max_length", 512),
        "type_vocab_size": ("segments", 2),
        "hidden_act": ("activation", "gelu"),
        "layer_norm_eps": ("norm_eps", 1e-12),
        "hidden_dropout_prob": ("dropout", 0.1),
        "tie_word_embeddings": ("tied", True),
    }
    FIXED: ClassVar = {
        "positions": "learned",
        "norm": "layernorm",
        "norm_order": "post",
        "norm_parameters": "both",
        "gated": False,
        "bias": ("qkv", "out", "ff", "head"),
        "embedding_norm": True,
    }
    ignored = (r"bert\.embeddings\.position_ids", r"cls\.seq_relationship\..*", r"cls\.predictions\.decoder\.bias")

    def quirks(self, theirs: Json) -> dict[str, Any]:
        refuse(theirs, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
        return {}

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        kind, config = architecture(theirs, self.classes), self.config(theirs)
        model = Encoder(config)
        if kind == "BertForSequenceClassification":
            dropout = pick(theirs, "classifier_dropout", float, config.dropout)
            model.head = ClassificationHead(
                config, class_count(theirs), pooling="first", activation="tanh", dense_bias=True, dropout=dropout
            )
        elif kind != "BertModel":
            model.head = MaskedTokenHead(config, model.stack.embedding.tokens)
        if "bert.pooler.dense.weight" in names and kind != "BertForSequenceClassification":
            model.pooler = Pooler(config)
        return model

    def unquirk(self, model: nn.Module) -> Json | None:
        if not isinstance(model, Encoder):
            return None
        head = model.head
        if head is None:
            return {"architectures": ["BertModel"]}
        if isinstance(head, MaskedTokenHead) and head.activation == model.config.activation:
            return {"architectures": ["BertForMaskedLM"]}
        if isinstance(head, ClassificationHead) and (head.pooling, head.activation) == ("first", "tanh"):
            classes = class_names(head.out.out_features)
            return {
                "architectures": ["BertForSequenceClassification"],
                "classifier_dropout": head.dropout.p,
                **classes,
            }
        raise ValueError(f"it has no such {type(head).__name__}")

    def rows(self, theirs: Json) -> list[Row]:
        ours, layer = "stack.blocks.{i}.", "bert.encoder.layer.{i}."
        dense = "bert.pooler.dense"
        if architecture(theirs, self.classes) in ("BertForMaskedLM", "BertForPreTraining"):
            dense = "cls.predictions.transform.dense"
        return [
            *layers(
                ("stack.embedding.tokens", "bert.embeddings.word_embeddings"),
                ("stack.embedding.learned.table", "bert.embeddings.position_embeddings"),
                ("stack.embedding.segments", "bert.embeddings.token_type_embeddings"),
                ("stack.embedding.norm", "bert.embeddings.LayerNorm"),
                (ours + "attention.layer.out", layer + "attention.output.dense"),
                (ours + "attention.norm", layer + "attention.output.LayerNorm"),
                (ours + "feedforward.layer.up", layer + "intermediate.dense"),
                (ours + "feedforward.layer.out", layer + "output.dense"),
                (ours + "feedforward.norm", layer + "output.LayerNorm"),
                ("pooler.dense", "bert.pooler.dense"),
                ("head.dense", dense),
                ("head.norm", "cls.predictions.transform.LayerNorm"),
                ("head.out", "classifier"),
            ),
            *stacked(
                ours + "attention.layer.qkv",
                *(layer + f"attention.self.{name}" for name in ("query", "key", "value")),
            ),
            row("head.token.matrix.weight", "cls.predictions.decoder.weight"),
            row("head.token.matrix.bias", "cls.predictions.bias"),
        ]


BERT = Bert()
