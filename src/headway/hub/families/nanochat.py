"""nanochat (Karpathy 2025): a decoder with rotary positions, ReLU², and norms without weights.

Quirks: it rotates queries and keys in the opposite direction, which is our rotation with the halves of each head
swapped; it normalises after rotating, which without weights is the same as before; its embeddings are normalised.
"""

from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from headway.hub.families.decoder import DecoderFamily
from headway.hub.families.family import Json, pick
from headway.hub.families.llama import LlamaLike
from headway.hub.families.rope import read_rope, write_rope
from headway.hub.name_table import Part, Row, layers, row
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
    ONLY: ClassVar = {**DecoderFamily.ONLY, "attention_bias": False}
    SAME: ClassVar = {
        **{key: (ours, None) for key, (ours, _) in LlamaLike.SAME.items()},  # sizes have no default
        "hidden_act": ("activation", "relu2"),
        "rms_norm_eps": ("norm_eps", 1e-06),
        "tie_word_embeddings": ("tied", False),
    }
    FIXED: ClassVar = {
        "norm": "rmsnorm",
        "norm_order": "pre",
        "norm_parameters": "none",
        "gated": False,
        "embedding_norm": True,
        "qk_norm": True,
    }

    SPECIAL: ClassVar = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}

    def quirks(self, theirs: Json) -> dict[str, Any]:
        positions = read_rope(theirs)
        if positions.scaling is not None:  # the norm after the rotation cancels a factor of cosines and sines
            positions = replace(positions, scaling=replace(positions.scaling, size=1.0))
        softcap = theirs.get("final_logit_softcapping", 15.0)
        return {
            "positions": positions,
            "logit_softcap": None if softcap is None else pick(theirs, "final_logit_softcapping", float, 15.0),
        }

    def entries(self, config: TransformerConfig) -> Json:
        softcap = {"final_logit_softcapping": config.logit_softcap}
        return {**write_rope(config.position), **softcap, "attention_bias": False, "attention_dropout": 0.0}

    def rows(self, theirs: Json) -> list[Row]:
        ours, layer = "stack.blocks.{i}.", "model.layers.{i}."
        return [
            *layers(
                ("stack.embedding.tokens", "model.embed_tokens"),
                (ours + "attention.layer.out", layer + "self_attn.o_proj"),
                (ours + "feedforward.layer.up", layer + "mlp.fc1"),
                (ours + "feedforward.layer.out", layer + "mlp.fc2"),
                ("head.matrix", "lm_head"),
            ),
            row(
                ours + "attention.layer.qkv.weight",
                Part(layer + "self_attn.q_proj.weight", swap_halves, swap_halves),
                Part(layer + "self_attn.k_proj.weight", swap_halves, swap_halves),
                layer + "self_attn.v_proj.weight",
            ),
        ]


NANOCHAT = NanoChat()
