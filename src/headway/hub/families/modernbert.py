"""ModernBERT (Warner et al. 2024): an encoder with rotary positions, GEGLU, pre-norm and no biases.

Kinds of layers and bases of positions are written in the form of transformers 5 and in that of transformers 4.

Quirks: the embeddings are normalised, so the first block's attention has no norm before it; some layers attend to a
window only; the masked-token head and the classifiers start with the same dense layer, activation and norm.
"""

from collections.abc import Set
from typing import Any, ClassVar, cast

from torch import nn

from headway.hub.families.encoder import encoder_classes
from headway.hub.families.family import (
    ACTIVATIONS,
    Family,
    Json,
    at_least,
    check_head_width,
    choice,
    class_count,
    class_names,
    pick,
    rope_base,
    word,
)
from headway.hub.name_table import Row, layers
from headway.models.config import LINEAR_BIASES, Positions
from headway.models.heads import CLASSES, HEADS, Gives, MaskedTokenHead, gives, n_outputs
from headway.models.transformer import Encoder

SPECIAL_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
POOLING = {"cls": "first", "mean": "mean"}
KINDS = ("full_attention", "sliding_attention")
BIASES = {"attention_bias": ("qkv", "out"), "mlp_bias": ("ff",), "decoder_bias": ("head",)}


class ModernBert(Family):
    """ModernBertModel, and with heads for masked tokens, classes of texts and classes of tokens."""

    model_type = "modernbert"
    wiring = "encoder"
    classes = encoder_classes("ModernBert")
    shapes: ClassVar = {
        Gives.VOCABULARY: {"activation": "gelu", "dense_bias": False},
        Gives.ROW: {"norm": True},
        Gives.TOKEN: {"dense": True},
    }
    prefix = "model."
    ONLY: ClassVar = {
        **{**Family.ONLY, "is_causal": False, "is_encoder_decoder": False, "rope_scaling": None},
        **{"is_decoder": False, "add_cross_attention": False},
    }
    SAME: ClassVar = {
        "vocab_size": ("vocab_size", None),
        "hidden_size": ("d_model", None),
        "num_hidden_layers": ("n_layers", None),
        "num_attention_heads": ("n_heads", None),
        "intermediate_size": ("d_ff", None),
        "max_position_embeddings": ("max_length", None),
        "hidden_activation": ("activation", "gelu"),
        "norm_eps": ("norm_eps", 1e-05),
        "tie_word_embeddings": ("tied", True),
    }
    FIXED: ClassVar = {
        "norm": "layernorm",
        "norm_order": "pre",
        "gated": True,
        "embedding_norm": True,
        "first_norm": False,
    }

    def quirks(self, theirs: Json) -> dict[str, Any]:
        kinds = _kinds(theirs)
        width, heads = pick(theirs, "hidden_size", int), pick(theirs, "num_attention_heads", int)
        check_head_width(theirs, width, heads)
        near = at_least(theirs, "local_attention", 1, 128) // 2 + 1
        windows = tuple(near if kind == "sliding_attention" else None for kind in kinds)
        present = [names for key, names in BIASES.items() if pick(theirs, key, bool, key == "decoder_bias")]
        bias = [name for names in present for name in names]
        return {
            "positions": _positions(theirs, kinds),
            "norm_parameters": "both" if pick(theirs, "norm_bias", bool, False) else "weight",
            "bias": tuple(name for name in LINEAR_BIASES if name in bias),
            "window": windows if any(windows) else None,
        }

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        result, config = self.gives(theirs), self.config(theirs)
        model = Encoder(config)
        shape: dict[str, Any] = {
            "activation": choice(theirs, "classifier_activation", ACTIVATIONS, "gelu"),
            "dense_bias": pick(theirs, "classifier_bias", bool, False),
        }
        if result is Gives.VOCABULARY:
            model.head = MaskedTokenHead(config, model.stack.embedding.tokens, **shape)
        elif result in CLASSES:
            classes, shape["dropout"] = class_count(theirs), pick(theirs, "classifier_dropout", float, 0.0)
            if result is Gives.ROW:
                shape["pooling"] = choice(theirs, "classifier_pooling", POOLING, "cls")
            model.head = HEADS["encoder"][result](config, classes, **self.shapes[result], **shape)
        return model

    def unquirk(self, model: nn.Module) -> Json | None:
        if not isinstance(model, Encoder):
            return None
        config = model.config
        windows = [config.layer_window(layer) for layer in range(config.n_layers)]
        kinds = ["sliding_attention" if window else "full_attention" for window in windows]
        bases = [config.position.layer_base(window) for window in (None, 1)]
        full, near = ({"rope_type": "default", "rope_theta": base} for base in bases)
        every = next((n for n in range(1, len(kinds) + 1) if _alternating(len(kinds), n) == kinds), None)
        return {
            **_head_entries(model, self.classes),
            "norm_bias": config.norm_parameters == "both",
            "attention_bias": "qkv" in config.bias,
            "mlp_bias": "ff" in config.bias,
            "decoder_bias": "head" in config.bias,
            "layer_types": kinds,
            "local_attention": max((max(1, (window - 1) * 2) for window in windows if window), default=128),
            "rope_parameters": {"full_attention": full, "sliding_attention": near},
            **dict(zip(("global_rope_theta", "local_rope_theta"), bases, strict=True)),
            **({} if every is None else {"global_attn_every_n_layers": every}),
            **dict.fromkeys(SPECIAL_IDS),
        }

    def reuse(self, model: Encoder, head: Any) -> None:
        if gives(model) is Gives.VOCABULARY:
            old: Any = model.head
            head.activation, head.dense, head.norm = old.activation, old.dense, old.norm
        super().reuse(model, head)

    def rows(self, theirs: Json) -> list[Row]:
        ours, layer = "stack.blocks.{i}.", "model.layers.{i}."
        return layers(
            ("stack.embedding.tokens", "model.embeddings.tok_embeddings"),
            ("stack.embedding.norm", "model.embeddings.norm"),
            (ours + "attention.norm", layer + "attn_norm"),
            (ours + "attention.layer.qkv", layer + "attn.Wqkv"),
            (ours + "attention.layer.out", layer + "attn.Wo"),
            (ours + "feedforward.norm", layer + "mlp_norm"),
            (ours + "feedforward.layer.up", layer + "mlp.Wi"),
            (ours + "feedforward.layer.out", layer + "mlp.Wo"),
            ("stack.norm", "model.final_norm"),
            ("head.dense", "head.dense"),
            ("head.norm", "head.norm"),
            ("head.token.matrix", "decoder"),
            ("head.out", "classifier"),
        )


def _kinds(theirs: Json) -> list[str]:
    """The attention kind of each layer.  Raises ValueError for unknown kinds or a wrong number."""
    n_layers = at_least(theirs, "num_hidden_layers", 1)
    every = at_least(theirs, "global_attn_every_n_layers", 1, 3)
    kinds = pick(theirs, "layer_types", list, _alternating(n_layers, every))
    unknown = [str(kind) for kind in kinds if kind not in KINDS]
    if unknown or len(kinds) != n_layers:
        found = ", ".join(sorted(set(unknown))) or f"{len(kinds)} entries"
        raise ValueError(f"layer_types has {found}, expected {' or '.join(KINDS)}, {n_layers} times")
    return kinds


def _alternating(n_layers: int, every: int) -> list[str]:
    """The kinds of layers of which each ``every``-th attends to all tokens: all that transformers 4 can express."""
    return [KINDS[bool(layer % every)] for layer in range(n_layers)]


def _positions(theirs: Json, kinds: list[str]) -> Positions:
    """Rotary positions, with a separate base for the layers that attend to a window."""
    rope = pick(theirs, "rope_parameters", dict, {})
    if unknown := sorted(set(rope) - set(KINDS)):
        raise ValueError(f"rope_parameters has {', '.join(unknown)}, expected one entry for each of {', '.join(KINDS)}")
    bases = {
        kind: rope_base(pick(theirs, f"{where}_rope_theta", float, default), pick(rope, kind, dict, {}))
        for kind, where, default in zip(KINDS, ("global", "local"), (160000.0, 10000.0), strict=True)
        if kind in kinds
    }
    base = bases.get("full_attention", bases.get("sliding_attention", 160000.0))
    near = bases.get("sliding_attention", base)
    return Positions("rotary", base=base, window_base=None if near == base else near)


def _head_entries(model: Encoder, classes: dict[Gives, str]) -> Json:
    """The configuration entries of a head.  Raises ValueError for a head that they cannot express."""
    result, head = gives(model), cast(Any, model.head)
    if result not in classes:
        raise ValueError(f"it has no {type(head).__name__}")
    entries: Json = {"architectures": [classes[result]]}
    if result is Gives.HIDDEN:
        return entries
    if head.dense is None or isinstance(head.norm, nn.Identity):
        raise ValueError("its heads have a dense layer and a norm")
    entries |= {"classifier_bias": head.dense.bias is not None, "classifier_activation": word(head.activation)}
    choice(entries, "classifier_activation", ACTIVATIONS, "gelu")
    if result in CLASSES:
        entries |= {"classifier_dropout": head.dropout.p, **class_names(n_outputs(model))}
    if result is Gives.ROW:
        if head.pooling == "last":
            raise ValueError("its classifier pools the mean or the first token")
        entries["classifier_pooling"] = "mean" if head.pooling == "mean" else "cls"
    return entries


MODERNBERT = ModernBert()
