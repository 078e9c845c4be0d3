"""GPT-2 (Radford et al. 2019): a decoder with learned positions, layer norm before each layer, and every bias.

Quirks: its matrices are stored transposed; its files may omit the prefix and contain causal masks.  Scores may be
divided by the layer number, or not by √d_k: then the queries' weights are scaled to compensate, and a saved model has
the usual scores.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from headway.hub.families.decoder import DecoderFamily, decoder_classes
from headway.hub.families.family import Json, pick
from headway.hub.name_table import Part, Row, layers, row, transposed
from headway.models.config import TransformerConfig
from headway.models.heads import Gives


class GPT2(DecoderFamily):
    """GPT2LMHeadModel, GPT2Model and GPT2ForSequenceClassification."""

    model_type = "gpt2"
    classes: ClassVar = {**decoder_classes("GPT2"), Gives.VOCABULARY: "GPT2LMHeadModel"}
    prefix = "transformer."
    transposed = True
    SAME: ClassVar = {
        "vocab_size": ("vocab_size", 50257),
        "n_embd": ("d_model", 768),
        "n_layer": ("n_layers", 12),
        "n_head": ("n_heads", 12),
        "n_positions": ("max_length", 1024),
        "activation_function": ("activation", "gelu_new"),
        "layer_norm_epsilon": ("norm_eps", 1e-05),
        "resid_pdrop": ("dropout", 0.1),
        "tie_word_embeddings": ("tied", True),
    }
    FIXED: ClassVar = {
        "positions": "learned",
        "norm": "layernorm",
        "norm_order": "pre",
        "norm_parameters": "both",
        "gated": False,
        "bias": ("qkv", "out", "ff"),
    }
    SPECIAL: ClassVar = {"bos_token_id": 50256, "eos_token_id": 50256}
    ignored = (r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",)

    def quirks(self, theirs: Json) -> dict[str, Any]:
        return {"d_ff": theirs.get("n_inner")}

    def entries(self, config: TransformerConfig) -> Json:
        return {"n_inner": config.hidden, "embd_pdrop": config.dropout, "attn_pdrop": config.dropout}

    def rows(self, theirs: Json) -> list[Row]:
        ours, layer = "stack.blocks.{i}.", "transformer.h.{i}."
        matrices = (
            ("attention.layer.out", "attn.c_proj"),
            ("feedforward.layer.up", "mlp.c_fc"),
            ("feedforward.layer.out", "mlp.c_proj"),
        )
        return [
            *layers(
                ("stack.embedding.tokens", "transformer.wte"),
                ("stack.embedding.learned.table", "transformer.wpe"),
                (ours + "attention.norm", layer + "ln_1"),
                (ours + "feedforward.norm", layer + "ln_2"),
                ("stack.norm", "transformer.ln_f"),
                ("head.matrix", "lm_head"),
                ("head.out", "score"),
            ),
            *(row(f"{ours}{one}.weight", transposed(f"{layer}{other}.weight")) for one, other in matrices),
            *(row(f"{ours}{one}.bias", f"{layer}{other}.bias") for one, other in matrices),
            *_qkv(theirs),
        ]


def _qkv(theirs: Json) -> list[Row]:
    """Queries, keys and values, the queries scaled as their scores require; layer by layer if that differs."""
    ours, name = "stack.blocks.{i}.attention.layer.qkv", "transformer.h.{i}.attn.c_attn"
    by_width = pick(theirs, "scale_attn_weights", bool, True)

    def rows(divisor: int) -> list[Row]:
        def scaled(x: Tensor, config: TransformerConfig) -> Tensor:
            factor = (1.0 if by_width else config.head_width**0.5) / divisor
            return torch.cat([x[: config.d_model] * factor, x[config.d_model :]])

        weight = Part(f"{name}.weight", lambda x, config: scaled(x.T, config), lambda x, _: x.T)
        return [row(f"{ours}.weight", weight), row(f"{ours}.bias", Part(f"{name}.bias", scaled))]

    if pick(theirs, "scale_attn_by_inverse_layer_idx", bool, False):
        return [entry.at(i) for i in range(pick(theirs, "n_layer", int, 12)) for entry in rows(divisor=i + 1)]
    return rows(divisor=1)


GPT_2 = GPT2()
