"""BERT and its kin: encoders with learned positions, normalised after each residual.

BERT (Devlin et al. 2018), RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020), DistilBERT (Sanh et al. 2019).
"""

import re
from typing import Any, ClassVar

from headway.hub.families.entries import Json, at_least, pick
from headway.hub.families.family import ENCODER, EncoderFamily, classes_of
from headway.hub.name_table import Row, each, name_rows
from headway.models.config import Positions
from headway.models.heads import Gives


class Bert(EncoderFamily):
    """BertModel and its heads: masked tokens (also of BertForPreTraining), classes of texts, classes of tokens.

    Quirks: the first token's vector goes through a pooler, which is also the start of the classifier; old files contain
    the next-sentence head, position ids (computed here), and the names γ and β for the norms' weights and biases.  The
    bias of the masked-token head is stored under two names.  If its matrix is tied to the embedding, the second is a
    copy of the first; if not, ``transformers`` adds only the second, and so does Headway.
    """

    model_type = "bert"
    classes = classes_of("Bert", ENCODER)
    others: ClassVar = {"BertForPreTraining": Gives.VOCABULARY}
    shapes: ClassVar = {Gives.ROW: {"pooling": "first", "activation": "tanh", "dense_bias": True}}
    prefix = "bert."
    pools: ClassVar[tuple[Gives, ...]] = (Gives.HIDDEN, Gives.ROW)
    DEFAULTS: ClassVar = {
        **{"vocab_size": 30522, "d_model": 768, "n_layers": 12, "n_heads": 12, "d_ff": 3072, "max_length": 512},
        **{"segments": 2, "activation": "gelu", "norm_eps": 1e-12, "dropout": 0.1, "tied": True},
    }
    FIXED: ClassVar = {
        **{"positions": "learned", "norm": "layernorm", "norm_order": "post", "norm_parameters": "both"},
        **{"gated": False, "bias": ("qkv", "out", "ff", "head"), "embedding_norm": True},
    }
    NAMES: ClassVar = {
        "stack.embedding.tokens": "embeddings.word_embeddings",
        "stack.embedding.learned.table": "embeddings.position_embeddings",
        "stack.embedding.segments": "embeddings.token_type_embeddings",
        "stack.embedding.norm": "embeddings.LayerNorm",
        "pooler.dense": "pooler.dense",
    }
    block = "encoder.layer.{i}."
    BLOCK: ClassVar = {
        "attention.layer.qkv": each("attention.self.{}", "query", "key", "value"),
        "attention.layer.out": "attention.output.dense",
        "attention.norm": "attention.output.LayerNorm",
        "feedforward.layer.up": "intermediate.dense",
        "feedforward.layer.out": "output.dense",
        "feedforward.norm": "output.LayerNorm",
    }
    HEADS: ClassVar = {
        Gives.VOCABULARY: {
            "head.dense": "cls.predictions.transform.dense",
            "head.norm": "cls.predictions.transform.LayerNorm",
            "head.token.matrix.weight": "cls.predictions.decoder.weight",
            "head.token.matrix.bias": "cls.predictions.bias",
        },
        Gives.ROW: {"head.dense": "bert.pooler.dense", "head.out": "classifier"},
        Gives.TOKEN: {"head.out": "classifier"},
    }
    second_bias: ClassVar[str] = "cls.predictions.decoder.bias"
    """the second name of the bias of the masked-token head"""
    ignored: ClassVar[tuple[str, ...]] = (r"bert\.embeddings\.(position|token_type)_ids", r"cls\.seq_relationship\..*")
    renamed: ClassVar = {r"LayerNorm\.gamma$": "LayerNorm.weight", r"LayerNorm\.beta$": "LayerNorm.bias"}

    def read_config(self, theirs: Json) -> dict[str, Any]:
        return {"segments": at_least(theirs, "type_vocab_size", 1, 2)}

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        copies = (re.escape(self.second_bias),) if pick(theirs, "tie_word_embeddings", bool, True) else ()
        return (*super().ignores(theirs), *copies)

    def rows(self, theirs: Json) -> list[Row]:
        tied = pick(theirs, "tie_word_embeddings", bool, True)
        second = {} if tied else {"head.token.matrix.bias": self.second_bias}
        return [*super().rows(theirs), *name_rows(second)]


class Roberta(Bert):
    """RobertaModel, and with heads for masked tokens, classes of texts and classes of tokens.

    Quirks: positions start after the padding token's id, and the rows before count in the table's size; one segment;
    the masked-token head has GELU whatever the blocks have; the classifier has its own dense layer and does not use the
    pooler.
    """

    model_type = "roberta"
    classes = classes_of("Roberta", ENCODER)
    others: ClassVar = {}
    shapes: ClassVar = {**Bert.shapes, Gives.VOCABULARY: {"activation": "gelu"}}
    prefix = "roberta."
    pools = (Gives.HIDDEN,)
    DEFAULTS: ClassVar = {**Bert.DEFAULTS, "vocab_size": 50265}
    HEADS: ClassVar = {
        Gives.VOCABULARY: {
            "head.dense": "lm_head.dense",
            "head.norm": "lm_head.layer_norm",
            "head.token.matrix.weight": "lm_head.decoder.weight",
            "head.token.matrix.bias": "lm_head.bias",
        },
        Gives.ROW: {"head.dense": "classifier.dense", "head.out": "classifier.out_proj"},
        Gives.TOKEN: {"head.out": "classifier"},
    }
    second_bias = "lm_head.decoder.bias"
    ignored = (r"roberta\.embeddings\.(position|token_type)_ids",)

    def read_config(self, theirs: Json) -> dict[str, Any]:
        start = pick(theirs, "pad_token_id", int, 1) + 1
        rows = pick(theirs, "max_position_embeddings", int, 512)
        if start < 1 or rows <= start:
            raise ValueError(
                f"max_position_embeddings is {rows}, but must exceed pad_token_id + 1 = {start}, which is ≥ 1"
            )
        positions = {"positions": Positions("learned", start=start), "max_length": rows - start}
        return {**super().read_config(theirs), **positions}

    def write_config(self, model: Any) -> Json:
        start = model.config.position.start
        return {"pad_token_id": start - 1, "max_position_embeddings": model.config.max_length + start}


class XlmRoberta(Roberta):
    """RoBERTa under the names XLMRobertaModel, XLMRobertaForMaskedLM and XLMRobertaForSequenceClassification."""

    model_type = "xlm-roberta"
    classes = classes_of("XLMRoberta", ENCODER)
    DEFAULTS: ClassVar = Bert.DEFAULTS


class DistilBert(EncoderFamily):
    """DistilBertModel, and with heads for masked tokens, classes of texts and classes of tokens.

    Quirks: no segments and no pooler; ε is not in the configuration; the classifier's dense layer is followed by ReLU;
    sinusoidal positions, where a configuration asks for them, are stored as a table and read as learned positions.
    """

    model_type = "distilbert"
    classes = classes_of("DistilBert", ENCODER)
    shapes: ClassVar = {Gives.ROW: {"pooling": "first", "activation": "relu", "dense_bias": True}}
    dropouts: ClassVar = {Gives.ROW: ("seq_classif_dropout", 0.2), Gives.TOKEN: (None, None)}
    prefix = "distilbert."
    attention_dropout = "attention_dropout"
    KEYS: ClassVar = {
        **{**Bert.KEYS, "d_model": "dim", "n_layers": "n_layers", "n_heads": "n_heads", "d_ff": "hidden_dim"},
        **{"activation": "activation", "dropout": "dropout"},
    }
    DEFAULTS: ClassVar = {
        **{"vocab_size": 30522, "d_model": 768, "n_layers": 6, "n_heads": 12, "d_ff": 3072, "max_length": 512},
        **{"activation": "gelu", "dropout": 0.1, "tied": True},
    }
    FIXED: ClassVar = {**Bert.FIXED, "norm_eps": 1e-12}
    NAMES: ClassVar = Bert.NAMES
    block = "transformer.layer.{i}."
    BLOCK: ClassVar = {
        "attention.layer.qkv": each("attention.{}_lin", "q", "k", "v"),
        "attention.layer.out": "attention.out_lin",
        "attention.norm": "sa_layer_norm",
        "feedforward.layer.up": "ffn.lin1",
        "feedforward.layer.out": "ffn.lin2",
        "feedforward.norm": "output_layer_norm",
    }
    HEADS: ClassVar = {
        Gives.VOCABULARY: {
            "head.dense": "vocab_transform",
            "head.norm": "vocab_layer_norm",
            "head.token.matrix": "vocab_projector",
        },
        Gives.ROW: {"head.dense": "pre_classifier", "head.out": "classifier"},
        Gives.TOKEN: {"head.out": "classifier"},
    }
    ignored = (r"distilbert\.embeddings\.position_ids",)
    renamed: ClassVar = Bert.renamed
