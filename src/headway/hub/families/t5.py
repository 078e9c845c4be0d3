"""T5 (Raffel et al. 2020), 1.0 and 1.1: an encoder-decoder with a learned bias of the scores by distance.

Quirks: scores are not divided by √d_k, so our queries' weights are √d_k times theirs; a head tied to the embedding
reads vectors divided by √D, which here is part of the decoder's last norm; in 1.1 head and embedding are two matrices.
The first block holds the bias of all blocks.
"""

from collections.abc import Set
from typing import Any, ClassVar

from torch import nn

from headway.hub.families.encoder_decoder import TARGET_IDS
from headway.hub.families.family import ACTIVATIONS, Family, Json, choice, pick, refuse, word
from headway.hub.name_table import Part, Row, layers, row, scaled
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import Gives, gives
from headway.models.transformer import Encoder, EncoderDecoder

GATED = {"gated-gelu": "gelu_tanh"} | {
    f"gated-{theirs}": ours for theirs, ours in ACTIVATIONS.items() if ours != "gelu"
}


class T5Family(Family):
    """T5ForConditionalGeneration, T5Model and T5EncoderModel."""

    model_type = "t5"
    wiring = "encoder-decoder"
    classes: ClassVar = {Gives.VOCABULARY: "T5ForConditionalGeneration", Gives.HIDDEN: "T5Model"}
    others: ClassVar = {"T5EncoderModel": Gives.HIDDEN}
    SAME: ClassVar = {
        "vocab_size": ("vocab_size", 32128),
        "d_model": ("d_model", 512),
        "num_heads": ("n_heads", 8),
        "d_kv": ("d_head", 64),
        "d_ff": ("d_ff", 2048),
        "n_positions": ("max_length", 512),
        "layer_norm_epsilon": ("norm_eps", 1e-6),
        "dropout_rate": ("dropout", 0.1),
    }
    ONLY: ClassVar = {**Family.ONLY, "is_causal": True}
    FIXED: ClassVar = {"norm": "rmsnorm", "norm_order": "pre", "norm_parameters": "weight", "bias": ()}
    ignored = (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",)

    def quirks(self, theirs: Json) -> dict[str, Any]:
        number = pick(theirs, "num_layers", int, 6)
        if self.architecture(theirs) != "T5EncoderModel":
            number = pick(theirs, "num_decoder_layers", int, number)
        projection = pick(theirs, "feed_forward_proj", str, "relu")
        gated = projection.startswith("gated-")
        _check_activation(theirs, projection)
        return {
            "n_layers": number,
            "gated": gated,
            "activation": choice(theirs, "feed_forward_proj", GATED if gated else ACTIVATIONS, "relu"),
            "tied": pick(theirs, "tie_word_embeddings", bool, True),
            "positions": Positions(
                "relative",
                buckets=pick(theirs, "relative_attention_num_buckets", int, 32),
                max_distance=pick(theirs, "relative_attention_max_distance", int, 128),
            ),
        }

    def encoder_config(self, theirs: Json) -> TransformerConfig | None:
        if self.architecture(theirs) == "T5EncoderModel":
            return None
        return self.config(theirs).but(n_layers=pick(theirs, "num_layers", int, 6))

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        result, config = self.gives(theirs), self.config(theirs)
        if self.architecture(theirs) == "T5EncoderModel":
            return Encoder(config)
        if result is Gives.VOCABULARY:  # transformers 5 writes "tied" for 1.1 too, even if it also writes a head
            config = config.but(tied=_scales(theirs) or "lm_head.weight" not in names)
        model = EncoderDecoder(config, config.but(n_layers=pick(theirs, "num_layers", int, 6)))
        model.head = model.head if result is Gives.VOCABULARY else self.head(result, config)
        return model

    def unquirk(self, model: nn.Module) -> Json | None:
        if isinstance(model, EncoderDecoder):
            if not model.shared:
                raise ValueError("its encoder and decoder share one table of token vectors")
            name = self.classes[gives(model)]
            number = model.encoder_config.n_layers
        elif isinstance(model, Encoder) and model.head is None and model.pooler is None:
            name, number = "T5EncoderModel", model.config.n_layers
        else:
            return None
        config, position = model.config, model.config.position
        return {
            "architectures": [name],
            "is_encoder_decoder": isinstance(model, EncoderDecoder),
            "num_layers": number,
            "num_decoder_layers": config.n_layers,
            "feed_forward_proj": word(config.activation, GATED if config.gated else ACTIVATIONS),
            "tie_word_embeddings": config.tied,
            "relative_attention_num_buckets": position.buckets,
            "relative_attention_max_distance": position.max_distance,
            **TARGET_IDS,
            "pad_token_id": 0,
        }

    def special(self, theirs: Json) -> Json:
        pad = theirs.get("pad_token_id", 0)
        return {"pad_token_id": pad, "eos_token_id": 1, "decoder_start_token_id": pad}

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        rest = (r"decoder\..*", r"lm_head\.weight") if self.architecture(theirs) == "T5EncoderModel" else ()
        return (*self.ignored, *rest)

    def copies(self, theirs: Json) -> dict[str, str]:
        return dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), "shared.weight")

    def rows(self, theirs: Json) -> list[Row]:
        rows = [
            row("encoder.embedding.tokens.weight", "shared.weight"),
            row("stack.embedding.tokens.weight", "shared.weight"),
            row("head.matrix.weight", "lm_head.weight"),
        ]
        gated = self.config(theirs).gated
        for ours, there, last in (("encoder", "encoder", 1), ("stack", "encoder", 1), ("decoder", "decoder", 2)):
            rows += _stack(ours, there, last, gated)
        if self.architecture(theirs) == "T5ForConditionalGeneration" and _scales(theirs):
            norm = scaled("decoder.final_layer_norm.weight", lambda config: config.d_model**-0.5)
            rows = [
                row("decoder.norm.weight", norm) if entry.ours == "decoder.norm.weight" else entry for entry in rows
            ]
        return rows


def _scales(theirs: Json) -> bool:
    """Whether the head reads vectors divided by √D: an entry since transformers 5, before that if the head is tied."""
    if "scale_decoder_outputs" in theirs:
        return pick(theirs, "scale_decoder_outputs", bool, False)
    return pick(theirs, "tie_word_embeddings", bool, True)


def _check_activation(theirs: Json, projection: str) -> None:
    """Raise ValueError if the two entries derived from ``feed_forward_proj`` contradict it; they take precedence."""
    name = "gelu_new" if projection == "gated-gelu" else projection.rpartition("-")[2]
    found = pick(theirs, "dense_act_fn", str, name)
    if ACTIVATIONS.get(found, found) != ACTIVATIONS.get(name, name):
        raise ValueError(f"dense_act_fn is {found!r}, but feed_forward_proj {projection!r} means {name!r}")
    refuse(theirs, is_gated_act=projection.startswith("gated-"))


def _stack(ours: str, theirs: str, last: int, gated: bool) -> list[Row]:
    """A stack whose feed-forward layer is the ``last`` layer of each block."""
    block, layer = f"{ours}.blocks.{{i}}.", f"{theirs}.block.{{i}}.layer."
    attention, cross, dense = layer + "0.SelfAttention.", layer + "1.EncDecAttention.", f"{layer}{last}.DenseReluDense."
    up = [dense + f"{name}.weight" for name in (("wi_0", "wi_1") if gated else ("wi",))]
    return [
        row(f"{ours}.relative.table.weight", f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
        row(f"{ours}.norm.weight", f"{theirs}.final_layer_norm.weight"),
        row(
            block + "attention.layer.qkv.weight",
            *(_queries(attention + "q.weight"), attention + "k.weight", attention + "v.weight"),
        ),
        row(block + "cross.layer.q.weight", _queries(cross + "q.weight")),
        row(block + "cross.layer.kv.weight", cross + "k.weight", cross + "v.weight"),
        row(block + "feedforward.layer.up.weight", *up),
        *layers(
            (block + "attention.layer.out", attention + "o"),
            (block + "attention.norm", layer + "0.layer_norm"),
            (block + "cross.layer.out", cross + "o"),
            (block + "cross.norm", layer + "1.layer_norm"),
            (block + "feedforward.layer.out", dense + "wo"),
            (block + "feedforward.norm", f"{layer}{last}.layer_norm"),
        ),
    ]


def _queries(name: str) -> Part:
    """The queries' weights, scaled to compensate for scores that are not divided by √d_k."""
    return scaled(name, lambda config: config.head_width**0.5)


T5 = T5Family()
