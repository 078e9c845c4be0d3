"""What BART, Marian and M2M-100 share: configuration keys and weight names of two stacks of the same width."""

from collections.abc import Set
from typing import Any, ClassVar

from torch import nn

from headway.hub.families.family import Family, Json, pick, refuse
from headway.hub.name_table import Part, Row, layers, row, stacked
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, gives
from headway.models.transformer import EncoderDecoder

TARGET_IDS = {
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "forced_eos_token_id")),
    "decoder_start_token_id": 0,
}
"""The ids written for a model without named tokens: a target starts with token 0, and no token ends it."""


class EncoderDecoderFamily(Family):
    """A family with those keys and names.  Its first class has a head, the other returns vectors."""

    wiring = "encoder-decoder"
    prefix = "model."
    separate: ClassVar[bool] = False
    """whether source and target may have separate tables of token vectors"""
    SAME: ClassVar = {
        "vocab_size": ("vocab_size", None),
        "d_model": ("d_model", 1024),
        "decoder_layers": ("n_layers", 12),
        "decoder_attention_heads": ("n_heads", 16),
        "decoder_ffn_dim": ("d_ff", 4096),
        "max_position_embeddings": ("max_length", 1024),
        "activation_function": ("activation", "gelu"),
        "dropout": ("dropout", 0.1),
        "scale_embedding": ("embedding_scale", False),
        "tie_word_embeddings": ("tied", True),
    }
    ONLY: ClassVar = {**Family.ONLY, "is_causal": True}
    FIXED: ClassVar = {
        "norm": "layernorm",
        "norm_parameters": "both",
        "norm_eps": 1e-5,
        "gated": False,
        "bias": ("qkv", "out", "ff", "head"),
    }
    ignored: ClassVar[tuple[str, ...]] = (
        r"model\.(encoder|decoder)\.version",
        r"model\.(encoder|decoder)\.embed_positions\.weights",
    )

    def shares(self, theirs: Json) -> bool:
        """Whether both stacks share one table of token vectors."""
        return True

    def quirks(self, theirs: Json) -> dict[str, Any]:
        if self.shares(theirs):  # with an untied head, transformers 4 trains two tables, transformers 5 three
            refuse(theirs, tie_word_embeddings=True)
        return {}

    def encoder_config(self, theirs: Json) -> TransformerConfig:
        return self.config(theirs).but(
            n_layers=pick(theirs, "encoder_layers", int, 12),
            n_heads=pick(theirs, "encoder_attention_heads", int, 16),
            d_ff=pick(theirs, "encoder_ffn_dim", int, 4096),
        )

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        result = self.gives(theirs)
        model = EncoderDecoder(self.config(theirs), self.encoder_config(theirs), shared=self.shares(theirs))
        model.head = model.head if result is Gives.VOCABULARY else self.head(result, model.config)
        return model

    def unquirk(self, model: nn.Module) -> Json | None:
        if not isinstance(model, EncoderDecoder):
            return None
        if not model.shared and not self.separate:
            raise ValueError("its encoder and decoder share one table of token vectors")
        encoder = model.encoder_config
        return {
            "architectures": [self.classes[gives(model)]],
            "is_encoder_decoder": True,
            "encoder_layers": encoder.n_layers,
            "encoder_attention_heads": encoder.n_heads,
            "encoder_ffn_dim": encoder.hidden,
            **TARGET_IDS,
        }

    def copies(self, theirs: Json) -> dict[str, str]:
        if not self.shares(theirs):
            return {}
        return dict.fromkeys(
            ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"),
            "model.shared.weight",
        )

    def zeros(self, theirs: Json) -> dict[str, tuple[int, ...]]:
        if "head" not in self.FIXED["bias"] or self.gives(theirs) is Gives.HIDDEN:
            return {}
        return {"final_logits_bias": (1, self.config(theirs).vocab_size)}

    def rows(self, theirs: Json) -> list[Row]:
        shared = self.shares(theirs)
        # (1, V) <-> (V,); any other shape raises IndexError or is refused when shapes are compared
        bias = Part("final_logits_bias", lambda b, _: b[0] if len(b) == 1 else b, lambda b, _: b[None])
        return [
            row("encoder.embedding.tokens.weight", f"model.{'shared' if shared else 'encoder.embed_tokens'}.weight"),
            row("decoder.embedding.tokens.weight", "model.decoder.embed_tokens.weight"),
            *_stack("encoder"),
            *_stack("decoder"),
            row("head.matrix.weight", "lm_head.weight"),
            row("head.matrix.bias", bias),
        ]


def _stack(side: str) -> list[Row]:
    ours, layer = f"{side}.blocks.{{i}}.", f"model.{side}.layers.{{i}}."
    return [
        *layers(
            (f"{side}.embedding.learned.table", f"model.{side}.embed_positions"),
            (f"{side}.embedding.norm", f"model.{side}.layernorm_embedding"),
            (ours + "attention.layer.out", layer + "self_attn.out_proj"),
            (ours + "attention.norm", layer + "self_attn_layer_norm"),
            (ours + "cross.layer.q", layer + "encoder_attn.q_proj"),
            (ours + "cross.layer.out", layer + "encoder_attn.out_proj"),
            (ours + "cross.norm", layer + "encoder_attn_layer_norm"),
            (ours + "feedforward.layer.up", layer + "fc1"),
            (ours + "feedforward.layer.out", layer + "fc2"),
            (ours + "feedforward.norm", layer + "final_layer_norm"),
            (f"{side}.norm", f"model.{side}.layer_norm"),
        ),
        *stacked(ours + "attention.layer.qkv", *(layer + f"self_attn.{name}_proj" for name in "qkv")),
        *stacked(ours + "cross.layer.kv", *(layer + f"encoder_attn.{name}_proj" for name in "kv")),
    ]
