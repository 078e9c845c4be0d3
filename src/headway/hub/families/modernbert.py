"""ModernBERT (Warner et al. 2024): an encoder with rotary positions, GEGLU, pre-norm and no biases.

Kinds of layers and bases of positions are written in the form of transformers 5 and in that of transformers 4.

Quirks: the embeddings are normalised, so the first block's attention has no norm before it; some layers attend to a
window only; the masked-token head and the classifiers start with the same dense layer, activation and norm.
"""

from typing import Any, ClassVar

from headway.hub.families.entries import (
    ACTIVATIONS,
    LAYER_KINDS,
    Json,
    at_least,
    check_head_width,
    choice,
    layer_kinds,
    pick,
    rope_base,
    word,
)
from headway.hub.families.family import ENCODER, EncoderFamily, Family, classes_of
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import CLASSES, Gives, gives

POOLING = {"cls": "first", "mean": "mean"}
HEAD = {"head.dense": "head.dense", "head.norm": "head.norm"}
"""What all heads start with."""


class ModernBert(EncoderFamily):
    """ModernBertModel, and with heads for masked tokens, classes of texts and classes of tokens."""

    model_type = "modernbert"
    classes = classes_of("ModernBert", ENCODER)
    shapes: ClassVar = {
        Gives.VOCABULARY: {"activation": "gelu", "dense_bias": False},
        Gives.ROW: {"norm": True},
        Gives.TOKEN: {"dense": True},
    }
    dropouts: ClassVar = dict.fromkeys(CLASSES, ("classifier_dropout", 0.0))
    attention_dropout = None
    one_dense = True
    prefix = "model."
    REQUIRED: ClassVar = {
        **{**Family.REQUIRED, "is_causal": False, "is_encoder_decoder": False, "rope_scaling": None},
        **{"is_decoder": False, "add_cross_attention": False},
    }
    KEYS: ClassVar = {**EncoderFamily.KEYS, "activation": "hidden_activation", "norm_eps": "norm_eps"}
    DEFAULTS: ClassVar = {
        **dict.fromkeys(("vocab_size", "d_model", "n_layers", "n_heads", "d_ff", "max_length")),
        **{"activation": "gelu", "norm_eps": 1e-05, "tied": True},
    }
    BIASES: ClassVar = {
        "attention_bias": (("qkv", "out"), False),
        "mlp_bias": (("ff",), False),
        "decoder_bias": (("head",), True),
    }
    FIXED: ClassVar = {
        **{"norm": "layernorm", "norm_order": "pre", "gated": True},
        **{"embedding_norm": True, "first_norm": False},
    }
    WRITTEN: ClassVar = dict.fromkeys(
        ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"),
    )
    NAMES: ClassVar = {
        "stack.embedding.tokens": "embeddings.tok_embeddings",
        "stack.embedding.norm": "embeddings.norm",
        "stack.norm": "final_norm",
    }
    block = "layers.{i}."
    BLOCK: ClassVar = {
        "attention.norm": "attn_norm",
        "attention.layer.qkv": "attn.Wqkv",
        "attention.layer.out": "attn.Wo",
        "feedforward.norm": "mlp_norm",
        "feedforward.layer.up": "mlp.Wi",
        "feedforward.layer.out": "mlp.Wo",
    }
    HEADS: ClassVar = {
        Gives.VOCABULARY: {**HEAD, "head.token.matrix": "decoder"},
        Gives.ROW: {**HEAD, "head.out": "classifier"},
        Gives.TOKEN: {**HEAD, "head.out": "classifier"},
    }

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        return self.ignored

    def read_config(self, theirs: Json) -> dict[str, Any]:
        check_head_width(theirs, pick(theirs, "hidden_size", int), pick(theirs, "num_attention_heads", int))
        n_layers = at_least(theirs, "num_hidden_layers", 1)
        every = at_least(theirs, "global_attn_every_n_layers", 1, 3)
        windowed = layer_kinds(theirs, _alternating(n_layers, every))
        if len(windowed) != n_layers:
            raise ValueError(f"layer_types has {len(windowed)} entries, expected {n_layers}")
        near = at_least(theirs, "local_attention", 1, 128) // 2 + 1
        return {
            "positions": _positions(theirs, windowed),
            "norm_parameters": "both" if pick(theirs, "norm_bias", bool, False) else "weight",
            "window": tuple(near if one else None for one in windowed) if any(windowed) else None,
        }

    def write_config(self, model: Any) -> Json:
        config: TransformerConfig = model.config
        windows = [config.layer_window(layer) for layer in range(config.n_layers)]
        windowed = [bool(window) for window in windows]
        bases = [config.position.layer_base(window) for window in (None, 1)]
        every = next((n for n in range(1, len(windows) + 1) if _alternating(len(windows), n) == windowed), None)
        return {
            "norm_bias": config.norm_parameters == "both",
            "layer_types": [LAYER_KINDS[one] for one in windowed],
            "local_attention": max((max(1, (window - 1) * 2) for window in windows if window), default=128),
            "rope_parameters": {
                kind: {"rope_type": "default", "rope_theta": base}
                for kind, base in zip(LAYER_KINDS, bases, strict=True)
            },
            **dict(zip(("global_rope_theta", "local_rope_theta"), bases, strict=True)),
            **({} if every is None else {"global_attn_every_n_layers": every}),
        }

    def read_head(self, theirs: Json, config: TransformerConfig) -> Json:
        shape = {
            **super().read_head(theirs, config),
            "activation": choice(theirs, "classifier_activation", ACTIVATIONS, "gelu"),
            "dense_bias": pick(theirs, "classifier_bias", bool, False),
        }
        if self.gives(theirs) is Gives.ROW:
            shape["pooling"] = choice(theirs, "classifier_pooling", POOLING, "cls")
        return shape

    def write_head(self, model: Any) -> Json:
        if (result := gives(model)) is Gives.HIDDEN:
            return {}
        head = model.head
        bias = getattr(head.dense, "bias", None) is not None
        shape = {"classifier_bias": bias, "classifier_activation": word(head.activation)}
        pooling = {"classifier_pooling": word(head.pooling, POOLING)} if result is Gives.ROW else {}
        return {**super().write_head(model), **shape, **pooling}


def _alternating(n_layers: int, every: int) -> list[bool]:
    """Which layers have a window where each ``every``-th has none: all that transformers 4 can express."""
    return [bool(layer % every) for layer in range(n_layers)]


def _positions(theirs: Json, windowed: list[bool]) -> Positions:
    """Rotary positions, with a separate base for the layers that attend to a window."""
    rope = pick(theirs, "rope_parameters", dict, {})
    if unknown := sorted(set(rope) - set(LAYER_KINDS)):
        known = ", ".join(LAYER_KINDS)
        raise ValueError(f"rope_parameters has {', '.join(unknown)}, expected one entry for each of {known}")
    bases = {
        kind: rope_base(pick(theirs, f"{where}_rope_theta", float, default), pick(rope, kind, dict, {}))
        for kind, where, default in zip(LAYER_KINDS, ("global", "local"), (160000.0, 10000.0), strict=True)
        if (kind == LAYER_KINDS[1]) in windowed
    }
    base = bases.get("full_attention", bases.get("sliding_attention", 160000.0))
    near = bases.get("sliding_attention", base)
    return Positions("rotary", base=base, window_base=None if near == base else near)
