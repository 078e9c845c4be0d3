"""Qwen3 (Yang et al. 2025): Llama with queries and keys normalised head by head, and a separate head width.

Quirks: the two norms have weights over the width of a head; layers may attend to a window, as in Qwen2.
"""

from typing import Any, ClassVar

from headway.hub.families.decoder import decoder_classes
from headway.hub.families.family import Json
from headway.hub.families.llama import LlamaLike
from headway.hub.families.qwen2 import Qwen2, read_windows, write_windows
from headway.models.config import TransformerConfig


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


QWEN3 = Qwen3()
