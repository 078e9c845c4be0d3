"""Llama and its kin, and nanochat: decoders with rotary positions and RMSNorm.

Llama (Touvron et al. 2023), Mistral (Jiang et al. 2023), Qwen2 (Yang et al. 2024) and Qwen3 (Yang et al. 2025) have one
table with a gated feed-forward layer, and differ in biases and windows; nanochat (Karpathy 2025) has ReLU².
"""

from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from headway.hub.families.entries import LAYER_KINDS, Json, layer_kinds, pick, read_rope, write_rope
from headway.hub.families.family import DECODER, DecoderFamily, classes_of
from headway.hub.name_table import Part, each
from headway.models.config import TransformerConfig
from headway.models.heads import Gives


class LlamaLike(DecoderFamily):
    """The table, with Llama's defaults.

    Quirks: there may be fewer key-value heads than heads, and a separate head width; old files contain the rotary
    frequencies, which are computed here.
    """

    prefix = "model."
    KEYS: ClassVar = {**DecoderFamily.KEYS, "norm_eps": "rms_norm_eps"}
    DEFAULTS: ClassVar = {
        **{"vocab_size": 32000, "d_model": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": None, "d_head": None},
        **{"d_ff": 11008, "max_length": 2048, "activation": "silu", "norm_eps": 1e-06, "tied": False},
    }
    FIXED: ClassVar = {"norm": "rmsnorm", "norm_order": "pre", "norm_parameters": "weight", "gated": True}
    WRITTEN: ClassVar = {**DecoderFamily.WRITTEN, "attention_dropout": 0.0}
    NAMES: ClassVar = {"stack.embedding.tokens": "embed_tokens", "stack.norm": "norm"}
    block = "layers.{i}."
    BLOCK: ClassVar = {
        "attention.norm": "input_layernorm",
        "attention.layer.qkv": each("self_attn.{}_proj", "q", "k", "v"),
        "attention.layer.q_norm": "self_attn.q_norm",
        "attention.layer.k_norm": "self_attn.k_norm",
        "attention.layer.out": "self_attn.o_proj",
        "feedforward.norm": "post_attention_layernorm",
        "feedforward.layer.up": each("mlp.{}_proj", "gate", "up"),
        "feedforward.layer.out": "mlp.down_proj",
    }
    ignored: ClassVar[tuple[str, ...]] = (r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",)

    def read_config(self, theirs: Json) -> dict[str, Any]:
        return {"positions": read_rope(theirs)}

    def write_config(self, model: Any) -> Json:
        return write_rope(model.config.position)


class Llama(LlamaLike):
    """LlamaForCausalLM, LlamaModel and LlamaForSequenceClassification."""

    model_type = "llama"
    classes = classes_of("Llama", DECODER)
    BIASES: ClassVar = {"attention_bias": (("qkv", "out"), False), "mlp_bias": (("ff",), False)}
    SPECIAL: ClassVar = {"bos_token_id": 1, "eos_token_id": 2}

    def config(self, theirs: Json) -> TransformerConfig:
        config = super().config(theirs)
        if config.d_model % config.n_heads:
            raise ValueError("hidden_size must be a multiple of num_attention_heads, even where head_dim is given")
        return config


class Mistral(LlamaLike):
    """MistralForCausalLM, MistralModel and MistralForSequenceClassification: every layer may have a window."""

    model_type = "mistral"
    classes = classes_of("Mistral", DECODER)
    DEFAULTS: ClassVar = {**LlamaLike.DEFAULTS, "n_kv_heads": 8, "d_ff": 14336, "max_length": 131072}
    SPECIAL: ClassVar = Llama.SPECIAL

    def read_config(self, theirs: Json) -> dict[str, Any]:
        near = theirs.get("sliding_window", 4096)
        window = None if near is None else pick(theirs, "sliding_window", int, near)
        return {**super().read_config(theirs), "window": window}

    def write_config(self, model: Any) -> Json:
        return {**super().write_config(model), "sliding_window": model.config.layer_window(0)}


class Qwen2(LlamaLike):
    """Qwen2ForCausalLM, Qwen2Model and Qwen2ForSequenceClassification: biases only on queries, keys and values.

    Quirks: some layers may attend to a window only.  Current files list the kind of every layer (``layer_types``); in
    older ones it is the layers from ``max_window_layers`` on, if ``use_sliding_window`` is true.
    """

    model_type = "qwen2"
    classes = classes_of("Qwen2", DECODER)
    DEFAULTS: ClassVar = {
        **LlamaLike.DEFAULTS,
        **{"vocab_size": 151936, "n_kv_heads": 32, "d_ff": 22016, "max_length": 32768},
    }
    FIXED: ClassVar = {**LlamaLike.FIXED, "bias": ("qkv",)}

    def read_config(self, theirs: Json) -> dict[str, Any]:
        n_layers = pick(theirs, "num_hidden_layers", int, 32)
        near = pick(theirs, "sliding_window", int, 4096) if pick(theirs, "use_sliding_window", bool, False) else None
        first = n_layers if near is None else pick(theirs, "max_window_layers", int, 28)
        windowed = layer_kinds(theirs, [layer >= first for layer in range(n_layers)])
        if near is None and any(windowed):
            raise ValueError(f"layer_types has {LAYER_KINDS[1]}, but use_sliding_window is not true")
        window = tuple(near if one else None for one in windowed) if any(windowed) else None
        return {**super().read_config(theirs), "window": window}

    def write_config(self, model: Any) -> Json:
        windows = [model.config.layer_window(layer) for layer in range(model.config.n_layers)]
        near = [layer for layer, window in enumerate(windows) if window is not None]
        return {
            **super().write_config(model),
            "use_sliding_window": bool(near),
            "sliding_window": windows[near[0]] if near else None,
            "max_window_layers": near[0] if near else model.config.n_layers,
            "layer_types": [LAYER_KINDS[window is not None] for window in windows],
        }


class Qwen3(Qwen2):
    """Qwen3ForCausalLM, Qwen3Model and Qwen3ForSequenceClassification.

    Quirks: it normalises queries and keys head by head, with weights over the width of a head, which is a size of its
    own there.
    """

    model_type = "qwen3"
    classes = classes_of("Qwen3", DECODER)
    DEFAULTS: ClassVar = {**Qwen2.DEFAULTS, "d_head": 128}
    FIXED: ClassVar = {**LlamaLike.FIXED, "qk_norm": True}
    BIASES: ClassVar = {"attention_bias": (("qkv", "out"), False)}


def swap_halves(weight: Tensor, config: TransformerConfig) -> Tensor:
    """Swap the two halves of every head: (H K, D) -> (H K, D); its own inverse."""
    return weight.unflatten(0, (-1, 2, config.head_width // 2)).flip(1).flatten(0, 2)


class NanoChat(LlamaLike):
    """NanoChatForCausalLM and NanoChatModel: ReLU², and norms without weights.

    Quirks: it rotates queries and keys in the opposite direction, which is our rotation with the halves of each head
    swapped; it normalises after rotating, which without weights is the same as before; its embeddings are normalised.
    """

    model_type = "nanochat"
    classes: ClassVar = {Gives.VOCABULARY: "NanoChatForCausalLM", Gives.HIDDEN: "NanoChatModel"}
    REQUIRED: ClassVar = {**DecoderFamily.REQUIRED, "attention_bias": False}
    DEFAULTS: ClassVar = {  # sizes have none
        **dict.fromkeys(LlamaLike.DEFAULTS),
        **{"activation": "relu2", "norm_eps": 1e-06, "tied": False},
    }
    FIXED: ClassVar = {
        **{"norm": "rmsnorm", "norm_order": "pre", "norm_parameters": "none"},
        **{"gated": False, "embedding_norm": True, "qk_norm": True},
    }
    WRITTEN: ClassVar = {**DecoderFamily.WRITTEN, "attention_bias": False, "attention_dropout": 0.0}
    SPECIAL: ClassVar = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    BLOCK: ClassVar = {
        "attention.layer.qkv.weight": (
            Part("self_attn.q_proj.weight", swap_halves, swap_halves),
            Part("self_attn.k_proj.weight", swap_halves, swap_halves),
            "self_attn.v_proj.weight",
        ),
        "attention.layer.out": "self_attn.o_proj",
        "feedforward.layer.up": "mlp.fc1",
        "feedforward.layer.out": "mlp.fc2",
    }
    ignored = ()

    def read_config(self, theirs: Json) -> dict[str, Any]:
        positions = read_rope(theirs)
        if positions.scaling is not None:  # the norm after the rotation cancels a factor of cosines and sines
            positions = replace(positions, scaling=replace(positions.scaling, size=1.0))
        key = "final_logit_softcapping"
        softcap = None if theirs.get(key, 15.0) is None else pick(theirs, key, float, 15.0)
        return {"positions": positions, "logit_softcap": softcap}

    def write_config(self, model: Any) -> Json:
        return {**super().write_config(model), "final_logit_softcapping": model.config.logit_softcap}
