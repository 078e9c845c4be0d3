"""nanochat (Karpathy 2025): a decoder with rotary positions, ReLU², and norms without weights.

Quirks: it rotates queries and keys in the opposite direction, which is our rotation with the halves of each head
swapped; it normalises after rotating, which without weights is the same as before; its embeddings are normalised.
"""

from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from headway.hub.families.entries import Json, pick, read_rope, write_rope
from headway.hub.families.family import DecoderFamily
from headway.hub.families.llama import LlamaLike
from headway.hub.name_table import Part
from headway.models.config import TransformerConfig
from headway.models.heads import Gives


def swap_halves(weight: Tensor, config: TransformerConfig) -> Tensor:
    """Swap the two halves of every head: (H K, D) -> (H K, D); its own inverse."""
    return weight.unflatten(0, (-1, 2, config.head_width // 2)).flip(1).flatten(0, 2)


class NanoChat(DecoderFamily):
    """NanoChatForCausalLM and NanoChatModel."""

    model_type = "nanochat"
    classes: ClassVar = {Gives.VOCABULARY: "NanoChatForCausalLM", Gives.HIDDEN: "NanoChatModel"}
    prefix = "model."
    REQUIRED: ClassVar = {**DecoderFamily.REQUIRED, "attention_bias": False}
    KEYS: ClassVar = LlamaLike.KEYS
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
    NAMES: ClassVar = {
        "stack.embedding.tokens": "embed_tokens",
    }
    block = "layers.{i}."
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

    def read_config(self, theirs: Json) -> dict[str, Any]:
        positions = read_rope(theirs)
        if positions.scaling is not None:  # the norm after the rotation cancels a factor of cosines and sines
            positions = replace(positions, scaling=replace(positions.scaling, size=1.0))
        key = "final_logit_softcapping"
        softcap = None if theirs.get(key, 15.0) is None else pick(theirs, key, float, 15.0)
        return {"positions": positions, "logit_softcap": softcap}

    def write_config(self, model: Any) -> Json:
        return {**write_rope(model.config.position), "final_logit_softcapping": model.config.logit_softcap}
