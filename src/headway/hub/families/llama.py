"""Llama (Touvron et al. 2023): a decoder with rotary positions, RMSNorm and a gated feed-forward layer.

Quirks: there may be fewer key-value heads than heads, and a separate head width; old files contain the rotary
frequencies, which are computed here.  Qwen2, Qwen3 and Mistral have the same table with other biases and windows.
"""

from typing import Any, ClassVar

from headway.hub.families.decoder import DecoderFamily, decoder_classes
from headway.hub.families.family import Json, pick
from headway.hub.families.rope import read_rope, write_rope
from headway.hub.name_table import Row, layers, stacked
from headway.models.config import TransformerConfig


class LlamaLike(DecoderFamily):
    """The table, with Llama's defaults."""

    prefix = "model."
    SAME: ClassVar = {
        "vocab_size": ("vocab_size", 32000),
        "hidden_size": ("d_model", 4096),
        "num_hidden_layers": ("n_layers", 32),
        "num_attention_heads": ("n_heads", 32),
        "num_key_value_heads": ("n_kv_heads", None),
        "head_dim": ("d_head", None),
        "intermediate_size": ("d_ff", 11008),
        "max_position_embeddings": ("max_length", 2048),
        "hidden_act": ("activation", "silu"),
        "rms_norm_eps": ("norm_eps", 1e-06),
        "tie_word_embeddings": ("tied", False),
    }
    FIXED: ClassVar = {"norm": "rmsnorm", "norm_order": "pre", "norm_parameters": "weight", "gated": True}
    BIASES: ClassVar[dict[str, tuple[str, ...]]] = {"attention_bias": ("qkv", "out"), "mlp_bias": ("ff",)}
    """their key -> our biases"""
    SPECIAL: ClassVar = {"bos_token_id": 1, "eos_token_id": 2}
    ignored = (r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",)

    def quirks(self, theirs: Json) -> dict[str, Any]:
        biases = [name for key, names in self.BIASES.items() if pick(theirs, key, bool, False) for name in names]
        return {"positions": read_rope(theirs), "bias": tuple(biases)}

    def entries(self, config: TransformerConfig) -> Json:
        biases = {key: names[0] in config.bias for key, names in self.BIASES.items()}
        return {**write_rope(config.position), **biases, "attention_dropout": 0.0}

    def rows(self, theirs: Json) -> list[Row]:
        ours, layer = "stack.blocks.{i}.", "model.layers.{i}."
        return [
            *layers(
                ("stack.embedding.tokens", "model.embed_tokens"),
                (ours + "attention.norm", layer + "input_layernorm"),
                (ours + "attention.layer.q_norm", layer + "self_attn.q_norm"),
                (ours + "attention.layer.k_norm", layer + "self_attn.k_norm"),
                (ours + "attention.layer.out", layer + "self_attn.o_proj"),
                (ours + "feedforward.norm", layer + "post_attention_layernorm"),
                (ours + "feedforward.layer.out", layer + "mlp.down_proj"),
                ("stack.norm", "model.norm"),
                ("head.matrix", "lm_head"),
                ("head.out", "score"),
            ),
            *stacked(ours + "attention.layer.qkv", *(layer + f"self_attn.{name}_proj" for name in "qkv")),
            *stacked(ours + "feedforward.layer.up", *(layer + f"mlp.{name}_proj" for name in ("gate", "up"))),
        ]


class Llama(LlamaLike):
    """LlamaForCausalLM, LlamaModel and LlamaForSequenceClassification."""

    model_type = "llama"
    classes = decoder_classes("Llama")

    def config(self, theirs: Json) -> TransformerConfig:
        config = super().config(theirs)
        if config.d_model % config.n_heads:
            raise ValueError("hidden_size must be a multiple of num_attention_heads, even where head_dim is given")
        return config


LLAMA = Llama()
