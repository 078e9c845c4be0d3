"""Qwen2 (Yang et al. 2024): Llama with biases only on queries, keys and values; and Qwen3 (Yang et al. 2025).

Quirks: some layers may attend to a window only.  Current files list the kind of every layer (``layer_types``); in older
ones it is the layers from ``max_window_layers`` on, if ``use_sliding_window`` is true.  Qwen3 normalises queries and
keys head by head, with weights over the width of a head, which is a size of its own there.
"""

from typing import Any, ClassVar

from headway.hub.families.decoder import decoder_classes
from headway.hub.families.family import Json, pick
from headway.hub.families.llama import LlamaLike
from headway.models.config import TransformerConfig

KINDS = ("full_attention", "sliding_attention")


class Qwen2(LlamaLike):
    """Qwen2ForCausalLM, Qwen2Model and Qwen2ForSequenceClassification."""

    model_type = "qwen2"
    classes = decoder_classes("Qwen2")
    SAME: ClassVar = {
        **LlamaLike.SAME,
        "vocab_size": ("vocab_size", 151936),
        "num_key_value_heads": ("n_kv_heads", 32),
        "intermediate_size": ("d_ff", 22016),
        "max_position_embeddings": ("max_length", 32768),
    }
    BIASES: ClassVar = {}
    SPECIAL: ClassVar = {}

    def quirks(self, theirs: Json) -> dict[str, Any]:
        return {**super().quirks(theirs), "bias": ("qkv",), "window": read_windows(theirs)}

    def entries(self, config: TransformerConfig) -> Json:
        return {**super().entries(config), **write_windows(config)}


def read_windows(theirs: Json) -> tuple[int | None, ...] | None:
    """The window of every layer, or None.  Raises ValueError for windowed layers without a window size."""
    n_layers = pick(theirs, "num_hidden_layers", int, 32)
    near = pick(theirs, "sliding_window", int, 4096) if pick(theirs, "use_sliding_window", bool, False) else None
    first = n_layers if near is None else pick(theirs, "max_window_layers", int, 28)
    kinds = pick(theirs, "layer_types", list, [KINDS[layer >= first] for layer in range(n_layers)])
    if any(kind not in KINDS for kind in kinds):
        raise ValueError(f"layer_types {kinds!r} is not supported, only a list of {' and '.join(KINDS)}")
    if near is None and KINDS[1] in kinds:
        raise ValueError(f"layer_types has {KINDS[1]}, but use_sliding_window is not true")
    return tuple(near if kind == KINDS[1] else None for kind in kinds) if KINDS[1] in kinds else None


def write_windows(config: TransformerConfig) -> Json:
    """The entries of ``config.json`` for windows, which all have the same size there."""
    windows = [config.layer_window(layer) for layer in range(config.n_layers)]
    near = [layer for layer, window in enumerate(windows) if window is not None]
    return {
        "use_sliding_window": bool(near),
        "sliding_window": windows[near[0]] if near else None,
        "max_window_layers": near[0] if near else config.n_layers,
        "layer_types": [KINDS[window is not None] for window in windows],
    }


class Qwen3(LlamaLike):
    """Qwen3ForCausalLM, Qwen3Model and Qwen3ForSequenceClassification."""

    model_type = "qwen3"
    classes = decoder_classes("Qwen3")
    SAME: ClassVar = {**Qwen2.SAME, "head_dim": ("d_head", 128)}
    FIXED: ClassVar = {**LlamaLike.FIXED, "qk_norm": True}
    BIASES: ClassVar = {"attention_bias": ("qkv", "out")}
    SPECIAL: ClassVar = {}

    def quirks(self, theirs: Json) -> dict[str, Any]:
        return {**super().quirks(theirs), "window": read_windows(theirs)}

    def entries(self, config: TransformerConfig) -> Json:
        return {**super().entries(config), **write_windows(config)}


QWEN2, QWEN3 = Qwen2(), Qwen3()
