"""DistilBERT (Sanh et al. 2019): half of BERT's layers, without segments and without a pooler.

Quirks: ε is not in the configuration; the classifier's dense layer is followed by ReLU; sinusoidal positions, where a
configuration asks for them, are stored as a table and read as learned positions.
"""

from typing import ClassVar

from headway.hub.families.bert import Bert
from headway.hub.families.encoder import EncoderFamily, encoder_classes
from headway.hub.families.family import Json
from headway.hub.name_table import Row, layers, stacked
from headway.models.heads import Gives


class DistilBert(EncoderFamily):
    """DistilBertModel, and with heads for masked tokens, classes of texts and classes of tokens."""

    model_type = "distilbert"
    classes = encoder_classes("DistilBert")
    prefix = "distilbert."
    attention_dropout = "attention_dropout"
    dropouts: ClassVar = {Gives.ROW: ("seq_classif_dropout", 0.2), Gives.TOKEN: (None, None)}
    SAME: ClassVar = {
        "vocab_size": ("vocab_size", 30522),
        "dim": ("d_model", 768),
        "n_layers": ("n_layers", 6),
        "n_heads": ("n_heads", 12),
        "hidden_dim": ("d_ff", 3072),
        "max_position_embeddings": ("max_length", 512),
        "activation": ("activation", "gelu"),
        "dropout": ("dropout", 0.1),
        "tie_word_embeddings": ("tied", True),
    }
    FIXED: ClassVar = {**Bert.FIXED, "norm_eps": 1e-12}
    shapes: ClassVar = {Gives.ROW: {"pooling": "first", "activation": "relu", "dense_bias": True}}
    ignored = (r"distilbert\.embeddings\.position_ids",)
    renamed: ClassVar = Bert.renamed

    def rows(self, theirs: Json) -> list[Row]:
        ours, layer = "stack.blocks.{i}.", "distilbert.transformer.layer.{i}."
        dense = "pre_classifier" if self.gives(theirs) is Gives.ROW else "vocab_transform"
        return [
            *layers(
                ("stack.embedding.tokens", "distilbert.embeddings.word_embeddings"),
                ("stack.embedding.learned.table", "distilbert.embeddings.position_embeddings"),
                ("stack.embedding.norm", "distilbert.embeddings.LayerNorm"),
                (ours + "attention.layer.out", layer + "attention.out_lin"),
                (ours + "attention.norm", layer + "sa_layer_norm"),
                (ours + "feedforward.layer.up", layer + "ffn.lin1"),
                (ours + "feedforward.layer.out", layer + "ffn.lin2"),
                (ours + "feedforward.norm", layer + "output_layer_norm"),
                ("head.dense", dense),
                ("head.norm", "vocab_layer_norm"),
                ("head.token.matrix", "vocab_projector"),
                ("head.out", "classifier"),
            ),
            *stacked(ours + "attention.layer.qkv", *(layer + f"attention.{name}_lin" for name in "qkv")),
        ]


DISTILBERT = DistilBert()
