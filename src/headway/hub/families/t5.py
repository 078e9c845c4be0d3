"""T5 (Raffel et al. 2020), 1.0 and 1.1: an encoder-decoder with a learned bias of the scores by distance.

Quirks: scores are not divided by √d_k, so our queries' weights are √d_k times theirs; a head tied to the embedding
reads vectors divided by √D, which here is part of the decoder's last norm; in 1.1 head and embedding are two matrices.
The first block holds the bias of all blocks.
"""

from collections.abc import Set
from typing import Any, ClassVar

from torch import nn

from headway.hub.families.entries import ACTIVATIONS, TARGET_IDS, Json, choice, pick, refuse, word
from headway.hub.families.family import ENCODER_DECODER, Family, classes_of
from headway.hub.name_table import Names, Part, Row, each, name_rows, scaled, within
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import Gives
from headway.models.transformer import Encoder, EncoderDecoder

ENCODER = "T5EncoderModel"
GATED = {"gated-gelu": "gelu_tanh"} | {
    f"gated-{theirs}": ours for theirs, ours in ACTIVATIONS.items() if ours != "gelu"
}


class T5(Family):
    """T5ForConditionalGeneration, T5Model and T5EncoderModel."""

    model_type = "t5"
    wiring = "encoder-decoder"
    classes = classes_of("T5", ENCODER_DECODER)
    others: ClassVar = {ENCODER: Gives.HIDDEN}
    KEYS: ClassVar = {
        **{**Family.KEYS, "d_model": "d_model", "n_heads": "num_heads", "d_head": "d_kv", "d_ff": "d_ff"},
        **{"max_length": "n_positions", "norm_eps": "layer_norm_epsilon", "dropout": "dropout_rate"},
    }
    DEFAULTS: ClassVar = {
        **{"vocab_size": 32128, "d_model": 512, "n_heads": 8, "d_head": 64, "d_ff": 2048, "max_length": 512},
        **{"norm_eps": 1e-6, "dropout": 0.1, "tied": True},
    }
    REQUIRED: ClassVar = {**Family.REQUIRED, "is_causal": True}
    FIXED: ClassVar = {"norm": "rmsnorm", "norm_order": "pre", "norm_parameters": "weight"}
    WRITTEN: ClassVar = {**TARGET_IDS, "pad_token_id": 0}
    ignored = (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",)

    def read_config(self, theirs: Json) -> dict[str, Any]:
        number = pick(theirs, "num_layers", int, 6)
        if self.architecture(theirs) != ENCODER:
            number = pick(theirs, "num_decoder_layers", int, number)
        projection = pick(theirs, "feed_forward_proj", str, "relu")
        gated = projection.startswith("gated-")
        # the two entries derived from it must not contradict it: it takes precedence
        name = "gelu_new" if projection == "gated-gelu" else projection.rpartition("-")[2]
        dense = pick(theirs, "dense_act_fn", str, name)
        if ACTIVATIONS.get(dense, dense) != ACTIVATIONS.get(name, name):
            raise ValueError(f"dense_act_fn is {dense!r}, but feed_forward_proj {projection!r} means {name!r}")
        refuse(theirs, is_gated_act=gated)
        return {
            "n_layers": number,
            "gated": gated,
            "activation": choice(theirs, "feed_forward_proj", GATED if gated else ACTIVATIONS, "relu"),
            "positions": Positions(
                "relative",
                buckets=pick(theirs, "relative_attention_num_buckets", int, 32),
                max_distance=pick(theirs, "relative_attention_max_distance", int, 128),
            ),
        }

    def encoder_config(self, theirs: Json) -> TransformerConfig | None:
        if self.architecture(theirs) == ENCODER:
            return None
        return self.config(theirs).but(n_layers=pick(theirs, "num_layers", int, 6))

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        config = self.config(theirs)
        if self.architecture(theirs) == ENCODER:
            return Encoder(config)
        if self.gives(theirs) is Gives.VOCABULARY:  # transformers 5 writes "tied" for 1.1 too
            config = config.but(tied=_scales(theirs) or "lm_head.weight" not in names)
        model = EncoderDecoder(config, config.but(n_layers=pick(theirs, "num_layers", int, 6)))
        model.head = self.head(self.gives(theirs), config, model.decoder.embedding.tokens)
        return model

    def has(self, model: nn.Module) -> bool:
        if isinstance(model, EncoderDecoder) and not model.shared:
            raise ValueError("its encoder and decoder share one table of token vectors")
        bare = isinstance(model, Encoder) and model.head is None and model.pooler is None
        return bare or isinstance(model, EncoderDecoder)

    def write_config(self, model: Any) -> Json:
        config, position = model.config, model.config.position
        both = isinstance(model, EncoderDecoder)
        return {
            **({} if both else {"architectures": [ENCODER]}),
            "is_encoder_decoder": both,
            "num_layers": model.encoder_config.n_layers if both else config.n_layers,
            "num_decoder_layers": config.n_layers,
            "feed_forward_proj": word(config.activation, GATED if config.gated else ACTIVATIONS),
            "relative_attention_num_buckets": position.buckets,
            "relative_attention_max_distance": position.max_distance,
        }

    def special(self, theirs: Json) -> Json:
        pad = theirs.get("pad_token_id", 0)
        return {"pad_token_id": pad, "eos_token_id": 1, "decoder_start_token_id": pad}

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        rest = (r"decoder\..*", r"lm_head\.weight") if self.architecture(theirs) == ENCODER else ()
        return (*self.ignored, *rest)

    def copies(self, theirs: Json) -> dict[str, str]:
        return dict.fromkeys(each("{}.embed_tokens.weight", "encoder", "decoder"), "shared.weight")

    def rows(self, theirs: Json) -> list[Row]:
        gated, norm = self.config(theirs).gated, Part("decoder.final_layer_norm.weight")
        if self.architecture(theirs) == "T5ForConditionalGeneration" and _scales(theirs):
            norm = scaled(norm.name, lambda config: config.d_model**-0.5)
        names: Names = {
            "encoder.embedding.tokens": "shared",
            "stack.embedding.tokens": "shared",
            **within("encoder.", "encoder.", _stack(1, gated)),
            **within("stack.", "encoder.", _stack(1, gated)),
            **within("decoder.", "decoder.", _stack(2, gated)),
            "decoder.norm.weight": norm,
            "head.matrix": "lm_head",
        }
        return name_rows(names)


def _scales(theirs: Json) -> bool:
    """Whether the head reads vectors divided by √D: an entry since transformers 5, before that if the head is tied."""
    if "scale_decoder_outputs" in theirs:
        return pick(theirs, "scale_decoder_outputs", bool, False)
    return pick(theirs, "tie_word_embeddings", bool, True)


def _stack(last: int, gated: bool) -> Names:
    """The modules of a stack whose feed-forward layer is the ``last`` layer of each block, ours -> theirs."""
    dense = f"{last}.DenseReluDense."
    attention, cross = each("0.SelfAttention.{}", *"qkvo"), each("1.EncDecAttention.{}", *"qkvo")
    return {
        "relative.table": "block.0.layer.0.SelfAttention.relative_attention_bias",
        "norm.weight": "final_layer_norm.weight",
        **within(
            "blocks.{i}.",
            "block.{i}.layer.",
            {
                "attention.layer.qkv": (_queries(attention[0]), *attention[1:3]),
                "attention.layer.out": attention[3],
                "attention.norm": "0.layer_norm",
                "cross.layer.q": _queries(cross[0]),
                "cross.layer.kv": cross[1:3],
                "cross.layer.out": cross[3],
                "cross.norm": "1.layer_norm",
                "feedforward.layer.up": each(dense + "wi_{}", "0", "1") if gated else dense + "wi",
                "feedforward.layer.out": dense + "wo",
                "feedforward.norm": f"{last}.layer_norm",
            },
        ),
    }


def _queries(name: str) -> Part:
    """The queries' weights, scaled to compensate for scores that are not divided by √d_k."""
    return scaled(name, lambda config: config.head_width**0.5)
