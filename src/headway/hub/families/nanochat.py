"""nanochat (Karpathy 2025): a decoder with rotary positions, ReLU², and norms without weights.

Quirks: it turns queries and keys the other way round, which is our rotation with the halves of each head swapped; it
normalises after turning, which without weights is the same as before; its embeddings are normalised.
"""

from collections.abc import Set
from typing import Any, ClassVar

from torch import Tensor, nn

from headway.hub.families.family import Family, Json, architecture, refuse, rope_base
from headway.hub.table import Part, Row, layers, row
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import TokenHead
from headway.models.transformer import Decoder


def swap_halves(weight: Tensor, config: TransformerConfig) -> Tensor:
    """Swap the two halves of every head: (H K, D) -> (H K, D); its own inverse."""
    return weight.unflatten(0, (-1, 2, config.head_width // 2)).flip(1).flatten(0, 2)


class NanoChat(Family):
    """NanoChatForCausalLM."""

    model_type = "nanochat"
    classes = ("NanoChatForCausalLM",)
    bare = "NanoChatModel"
    prefix = "model."
    SAME: ClassVar = {
        "vocab_size": ("vocab_size", None),
        "hidden_size": ("d_model", None),
        "num_hidden_layers": ("n_layers", None),
        "num_attention_heads": ("n_heads", None),
        "num_key_value_heads": ("n_kv_heads", None),
        "intermediate_size": ("d_ff", None),
        "max_position_embeddings": ("max_length", None),
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

    def quirks(self, theirs: Json) -> dict[str, Any]:
        refuse(theirs, attention_bias=False)
        base = rope_base(theirs, theirs.get("rope_parameters"), 10000.0)
        return {"positions": Positions("rotary", base=base), "logit_softcap": theirs.get("final_logit_softcapping")}

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        architecture(theirs, self.classes)
        return Decoder(self.config(theirs))

    def unquirk(self, model: nn.Module) -> Json | None:
        if not isinstance(model, Decoder) or not isinstance(model.head, TokenHead):
            return None
        return {
            "architectures": ["NanoChatForCausalLM"],
            "rope_parameters": {"rope_type": "default", "rope_theta": model.config.position.base},
            "final_logit_softcapping": model.config.logit_softcap,
            "attention_bias": False,
            "attention_dropout": 0.0,
            **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id")),
        }

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
