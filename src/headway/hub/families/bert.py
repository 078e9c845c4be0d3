"""BERT (Devlin et al. 2018): an encoder with learned positions and segments, normalised after each residual.

Quirks: the first token's vector goes through a pooler, which is also the start of the classifier; old files contain the
next-sentence head, position ids (computed here), and the names γ and β for the norms' weights and biases.
"""

import re
from typing import Any, ClassVar

from headway.hub.families.encoder import EncoderFamily, encoder_classes
from headway.hub.families.family import Json, pick
from headway.hub.name_table import Row, layers, row, stacked
from headway.models.heads import Gives, Pooler
from headway.models.transformer import Encoder


class Bert(EncoderFamily):
    """BertModel and its heads: masked tokens (also of BertForPreTraining), classes of texts, classes of tokens.

    The bias of the masked-token head is stored under two names.  If its matrix is tied to the embedding, the second is
    a copy of the first; if not, ``transformers`` adds only the second, and so does Headway.
    """

    model_type = "bert"
    classes = encoder_classes("Bert")
    others: ClassVar = {"BertForPreTraining": Gives.VOCABULARY}
    shapes: ClassVar = {Gives.ROW: {"pooling": "first", "activation": "tanh", "dense_bias": True}}
    prefix = "bert."
    pools_classes = True
    bare_pools = True
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
    ignored: ClassVar[tuple[str, ...]] = (r"bert\.embeddings\.(position|token_type)_ids", r"cls\.seq_relationship\..*")
    renamed: ClassVar = {r"LayerNorm\.gamma$": "LayerNorm.weight", r"LayerNorm\.beta$": "LayerNorm.bias"}
    TOKEN_MATRIX: ClassVar = "cls.predictions.decoder"
    TOKEN_BIAS: ClassVar = "cls.predictions.bias"

    def quirks(self, theirs: Json) -> dict[str, Any]:
        if theirs.get("type_vocab_size") == 0:
            raise ValueError("type_vocab_size is 0, but must be at least 1")
        return {}

    def reuse(self, model: Encoder, head: Any) -> None:
        if isinstance(model.pooler, Pooler) and head.gives is Gives.ROW:
            head.dense = model.pooler.dense
        super().reuse(model, head)

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        copies = (re.escape(self.TOKEN_MATRIX + ".bias"),) if pick(theirs, "tie_word_embeddings", bool, True) else ()
        return (*super().ignores(theirs), *copies)

    def rows(self, theirs: Json) -> list[Row]:
        ours, layer = "stack.blocks.{i}.", f"{self.prefix}encoder.layer.{{i}}."
        tied = pick(theirs, "tie_word_embeddings", bool, True)
        biases = [self.TOKEN_BIAS, *([] if tied else [self.TOKEN_MATRIX + ".bias"])]
        return [
            *layers(
                ("stack.embedding.tokens", f"{self.prefix}embeddings.word_embeddings"),
                ("stack.embedding.learned.table", f"{self.prefix}embeddings.position_embeddings"),
                ("stack.embedding.segments", f"{self.prefix}embeddings.token_type_embeddings"),
                ("stack.embedding.norm", f"{self.prefix}embeddings.LayerNorm"),
                (ours + "attention.layer.out", layer + "attention.output.dense"),
                (ours + "attention.norm", layer + "attention.output.LayerNorm"),
                (ours + "feedforward.layer.up", layer + "intermediate.dense"),
                (ours + "feedforward.layer.out", layer + "output.dense"),
                (ours + "feedforward.norm", layer + "output.LayerNorm"),
                ("pooler.dense", f"{self.prefix}pooler.dense"),
                *self.head_names(self.gives(theirs)),
            ),
            *stacked(
                ours + "attention.layer.qkv", *(layer + f"attention.self.{name}" for name in ("query", "key", "value"))
            ),
            row("head.token.matrix.weight", self.TOKEN_MATRIX + ".weight"),
            *(row("head.token.matrix.bias", name) for name in biases),
        ]

    def head_names(self, result: Gives) -> tuple[tuple[str, str], ...]:
        """The modules of a head, ours and theirs."""
        if result is Gives.TOKEN:
            return (("head.out", "classifier"),)
        if result is Gives.ROW:
            return (("head.dense", "bert.pooler.dense"), ("head.out", "classifier"))
        token = "cls.predictions.transform"
        return (("head.dense", f"{token}.dense"), ("head.norm", f"{token}.LayerNorm"))


BERT = Bert()
