"""GPT-2 (Radford et al. 2019): a decoder with learned positions, layer norm before each layer, and every bias.

Quirks: its matrices are stored transposed; its files may omit the prefix and contain causal masks.  Scores may be
divided by the layer number, or not by √d_k: then the queries' weights are scaled to compensate, and a saved model has
the usual scores.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from headway.hub.families.entries import Json, pick
from headway.hub.families.family import DECODER, DecoderFamily, classes_of
from headway.hub.name_table import Part, Row, by_columns, name_rows
from headway.models.config import TransformerConfig
from headway.models.heads import Gives


class GPT2(DecoderFamily):
    """GPT2LMHeadModel, GPT2Model and GPT2ForSequenceClassification."""

    model_type = "gpt2"
    classes: ClassVar = {**classes_of("GPT2", DECODER), Gives.VOCABULARY: "GPT2LMHeadModel"}
    prefix = "transformer."
    transposed = True
    KEYS: ClassVar = {
        **{**DecoderFamily.KEYS, "d_model": "n_embd", "n_layers": "n_layer", "n_heads": "n_head"},
        **{"max_length": "n_positions", "activation": "activation_function", "norm_eps": "layer_norm_epsilon"},
        "dropout": "resid_pdrop",
    }
    DEFAULTS: ClassVar = {
        **{"vocab_size": 50257, "d_model": 768, "n_layers": 12, "n_heads": 12, "max_length": 1024},
        **{"activation": "gelu_new", "norm_eps": 1e-05, "dropout": 0.1, "tied": True},
    }
    FIXED: ClassVar = {
        **{"positions": "learned", "norm": "layernorm", "norm_order": "pre", "norm_parameters": "both"},
        **{"gated": False, "bias": ("qkv", "out", "ff")},
    }
    SPECIAL: ClassVar = {"bos_token_id": 50256, "eos_token_id": 50256}
    NAMES: ClassVar = {
        "stack.embedding.tokens": "wte",
        "stack.embedding.learned.table": "wpe",
        "stack.norm": "ln_f",
    }
    block = "h.{i}."
    BLOCK: ClassVar = {
        "attention.norm": "ln_1",
        "attention.layer.out": by_columns("attn.c_proj"),
        "feedforward.norm": "ln_2",
        "feedforward.layer.up": by_columns("mlp.c_fc"),
        "feedforward.layer.out": by_columns("mlp.c_proj"),
    }
    ignored = (r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",)

    def read_config(self, theirs: Json) -> dict[str, Any]:
        return {"d_ff": theirs.get("n_inner")}

    def write_config(self, model: Any) -> Json:
        dropout = model.config.dropout
        return {"n_inner": model.config.hidden, "embd_pdrop": dropout, "attn_pdrop": dropout}

    def rows(self, theirs: Json) -> list[Row]:
        return [*super().rows(theirs), *_qkv(theirs)]


def _qkv(theirs: Json) -> list[Row]:
    """Queries, keys and values, the queries scaled as their scores require; layer by layer if that differs."""
    ours, name = "stack.blocks.{i}.attention.layer.qkv", "transformer.h.{i}.attn.c_attn"
    by_width = pick(theirs, "scale_attn_weights", bool, True)

    def rows(divisor: int) -> list[Row]:
        def scaled(x: Tensor, config: TransformerConfig) -> Tensor:
            factor = (1.0 if by_width else config.head_width**0.5) / divisor
            return torch.cat([x[: config.d_model] * factor, x[config.d_model :]])

        weight = Part(f"{name}.weight", lambda x, config: scaled(x.T, config), lambda x, _: x.T)
        return name_rows({f"{ours}.weight": weight, f"{ours}.bias": Part(f"{name}.bias", scaled)})

    if pick(theirs, "scale_attn_by_inverse_layer_idx", bool, False):
        return [entry.at(i) for i in range(pick(theirs, "n_layer", int, 12)) for entry in rows(divisor=i + 1)]
    return rows(divisor=1)
