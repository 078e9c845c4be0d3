"""Mistral (Jiang et al. 2023): Llama in which every layer may attend to a window only."""

from typing import Any, ClassVar

from headway.hub.families.decoder import decoder_classes
from headway.hub.families.family import Json, pick
from headway.hub.families.llama import LlamaLike
from headway.models.config import TransformerConfig


class Mistral(LlamaLike):
    """MistralForCausalLM, MistralModel and MistralForSequenceClassification."""

    model_type = "mistral"
    classes = decoder_classes("Mistral")
    SAME: ClassVar = {
        **LlamaLike.SAME,
        "num_key_value_heads": ("n_kv_heads", 8),
        "intermediate_size": ("d_ff", 14336),
        "max_position_embeddings": ("max_length", 131072),
    }
    BIASES: ClassVar = {}

    def quirks(self, theirs: Json) -> dict[str, Any]:
        near = theirs.get("sliding_window", 4096)
        return {**super().quirks(theirs), "window": None if near is None else pick(theirs, "sliding_window", int, near)}

    def entries(self, config: TransformerConfig) -> Json:
        return {**super().entries(config), "sliding_window": config.layer_window(0)}


MISTRAL = Mistral()
