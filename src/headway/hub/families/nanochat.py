"""nanochat (Karpathy 2025): a decoder with rotary positions, ReLU², and norms without weights.

Quirks: it turns queries and keys the other way round, which is our rotation with the halves of each head swapped; it
normalises after turning, which without weights is the same as before; its embeddings are normalised.
"""

from torch import Tensor, nn

from headway.hub.families.family import Family, Json, architecture, choice, pick, rope_base
from headway.hub.table import Part, Row, row
from headway.models.config import Positions, TransformerConfig
from headway.models.transformer import Decoder

ACTIVATIONS = {"relu2": "relu2", "silu": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


def _swap_halves(weight: Tensor, config: TransformerConfig) -> Tensor:
    """Swap the two halves of every head: (H K, D) -> (H K, D); its own inverse."""
    return weight.unflatten(0, (-1, 2, config.head_width // 2)).flip(1).flatten(0, 2)


class NanoChat(Family):
    """NanoChatForCausalLM."""

    model_type = "nanochat"

    def config(self, theirs: Json) -> TransformerConfig:
        if pick(theirs, "attention_bias", bool, False):
            raise ValueError("attention_bias true is not supported for nanochat")
        base = rope_base(theirs, theirs.get("rope_parameters"), 10000.0)
        heads = pick(theirs, "num_attention_heads", int)
        kv_heads = theirs.get("num_key_value_heads") or heads
        return TransformerConfig(
            vocab_size=pick(theirs, "vocab_size", int),
            d_model=pick(theirs, "hidden_size", int),
            n_layers=pick(theirs, "num_hidden_layers", int),
            n_heads=heads,
            n_kv_heads=None if kv_heads == heads else kv_heads,
            d_ff=pick(theirs, "intermediate_size", int),
            max_length=pick(theirs, "max_position_embeddings", int),
            positions=Positions("rotary", base=base),
            norm="rmsnorm",
            norm_eps=float(pick(theirs, "rms_norm_eps", float, 1e-6)),
            norm_parameters="none",
            activation=choice(theirs, "hidden_act", ACTIVATIONS, "relu2"),
            gated=False,
            tied=pick(theirs, "tie_word_embeddings", bool, False),
            embedding_norm=True,
            qk_norm=True,
            logit_softcap=theirs.get("final_logit_softcapping"),
        )

    def build(self, theirs: Json) -> nn.Module:
        architecture(theirs, ("NanoChatForCausalLM",), "NanoChatForCausalLM")
        return Decoder(self.config(theirs))

    def describe(self, model: nn.Module) -> Json | None:
        if not isinstance(model, Decoder):
            return None
        config = model.config
        return {
            "architectures": ["NanoChatForCausalLM"],
            "model_type": self.model_type,
            "vocab_size": config.vocab_size,
            "hidden_size": config.d_model,
            "intermediate_size": config.hidden,
            "num_hidden_layers": config.n_layers,
            "num_attention_heads": config.n_heads,
            "num_key_value_heads": config.kv_heads,
            "max_position_embeddings": config.max_length,
            "hidden_act": next((k for k, v in ACTIVATIONS.items() if v == config.activation), config.activation),
            "rms_norm_eps": config.norm_eps,
            "rope_parameters": {"rope_type": "default", "rope_theta": config.position.base},
            "final_logit_softcapping": config.logit_softcap,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "tie_word_embeddings": config.tied,
            **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id")),
        }

    def rows(self, theirs: Json) -> list[Row]:
        ours, layer = "stack.blocks.{i}.", "model.layers.{i}."
        return [
            row("stack.embedding.tokens.weight", "model.embed_tokens.weight"),
            row(
                ours + "attention.layer.qkv.weight",
                Part(layer + "self_attn.q_proj.weight", _swap_halves, _swap_halves),
                Part(layer + "self_attn.k_proj.weight", _swap_halves, _swap_halves),
                layer + "self_attn.v_proj.weight",
            ),
            row(ours + "attention.layer.out.weight", layer + "self_attn.o_proj.weight"),
            row(ours + "feedforward.layer.up.weight", layer + "mlp.fc1.weight"),
            row(ours + "feedforward.layer.out.weight", layer + "mlp.fc2.weight"),
            row("head.matrix.weight", "lm_head.weight"),
        ]


NANOCHAT = NanoChat()
