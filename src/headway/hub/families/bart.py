"""BART, Marian and M2M-100: encoder-decoders whose two stacks have the same width.

BART (Lewis et al. 2019), Marian (Junczys-Dowmunt et al. 2018) and M2M-100 (Fan et al. 2020) have one table.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from headway.hub.families.entries import TARGET_IDS, Json, pick, refuse
from headway.hub.families.family import ENCODER_DECODER, Family, classes_of
from headway.hub.name_table import Names, Part, Row, each, name_rows, within
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import Gives
from headway.models.transformer import EncoderDecoder
from headway.nn.positions import sinusoids

STACK: Names = {
    "embedding.learned.table": "embed_positions",
    "embedding.norm": "layernorm_embedding",
    **within(
        "blocks.{i}.",
        "layers.{i}.",
        {
            "attention.layer.qkv": each("self_attn.{}_proj", "q", "k", "v"),
            "attention.layer.out": "self_attn.out_proj",
            "attention.norm": "self_attn_layer_norm",
            "cross.layer.q": "encoder_attn.q_proj",
            "cross.layer.kv": each("encoder_attn.{}_proj", "k", "v"),
            "cross.layer.out": "encoder_attn.out_proj",
            "cross.norm": "encoder_attn_layer_norm",
            "feedforward.layer.up": "fc1",
            "feedforward.layer.out": "fc2",
            "feedforward.norm": "final_layer_norm",
        },
    ),
    "norm": "layer_norm",
}
"""The modules of a stack, ours -> theirs."""


class BartLike(Family):
    """A family with those keys and names.  Its first class has a head, the other returns vectors."""

    wiring = "encoder-decoder"
    prefix = "model."
    separate: ClassVar[bool] = False
    """whether source and target may have separate tables of token vectors"""
    KEYS: ClassVar = {
        **{**Family.KEYS, "d_model": "d_model", "n_layers": "decoder_layers", "n_heads": "decoder_attention_heads"},
        **{"d_ff": "decoder_ffn_dim", "activation": "activation_function", "dropout": "dropout"},
        "embedding_scale": "scale_embedding",
    }
    DEFAULTS: ClassVar = {
        **{"vocab_size": None, "d_model": 1024, "n_layers": 12, "n_heads": 16, "d_ff": 4096, "max_length": 1024},
        **{"activation": "gelu", "dropout": 0.1, "embedding_scale": False, "tied": True},
    }
    REQUIRED: ClassVar = {**Family.REQUIRED, "is_causal": True}
    FIXED: ClassVar = {
        **{"norm": "layernorm", "norm_order": "post", "norm_parameters": "both", "norm_eps": 1e-5},
        **{"gated": False, "bias": ("qkv", "out", "ff", "head")},
    }
    WRITTEN: ClassVar = {"is_encoder_decoder": True, **TARGET_IDS}
    NAMES: ClassVar = {
        **within("encoder.", "encoder.", STACK),
        **within("decoder.", "decoder.", STACK),
        "decoder.embedding.tokens.weight": "decoder.embed_tokens.weight",
    }
    ignored: ClassVar[tuple[str, ...]] = (
        r"model\.(encoder|decoder)\.version",
        r"model\.(encoder|decoder)\.embed_positions\.weights",
    )

    def shares(self, theirs: Json) -> bool:
        """Whether both stacks share one table of token vectors."""
        return not self.separate or pick(theirs, "share_encoder_decoder_embeddings", bool, True)

    def read_config(self, theirs: Json) -> dict[str, Any]:
        if self.shares(theirs):  # with an untied head, transformers 4 trains two tables, transformers 5 three
            refuse(theirs, tie_word_embeddings=True)
        return {}

    def encoder_config(self, theirs: Json) -> TransformerConfig:
        return self.config(theirs).but(
            n_layers=pick(theirs, "encoder_layers", int, 12),
            n_heads=pick(theirs, "encoder_attention_heads", int, 16),
            d_ff=pick(theirs, "encoder_ffn_dim", int, 4096),
        )

    def bare(self, config: TransformerConfig, theirs: Json) -> EncoderDecoder:
        return EncoderDecoder(config, self.encoder_config(theirs), shared=self.shares(theirs))

    def write_config(self, model: Any) -> Json:
        if not model.shared and not self.separate:
            raise ValueError("its encoder and decoder share one table of token vectors")
        encoder = model.encoder_config
        return {
            "encoder_layers": encoder.n_layers,
            "encoder_attention_heads": encoder.n_heads,
            "encoder_ffn_dim": encoder.hidden,
        }

    def copies(self, theirs: Json) -> dict[str, str]:
        if not self.shares(theirs):
            return {}
        tables = each("model.{}.embed_tokens.weight", "encoder", "decoder")
        return dict.fromkeys((*tables, "lm_head.weight"), "model.shared.weight")

    def zeros(self, theirs: Json) -> dict[str, tuple[int, ...]]:
        if "head" not in self.FIXED["bias"] or self.gives(theirs) is Gives.HIDDEN:
            return {}
        return {"final_logits_bias": (1, self.config(theirs).vocab_size)}

    def rows(self, theirs: Json) -> list[Row]:
        shared = self.shares(theirs)
        # (1, V) <-> (V,); any other shape raises IndexError or is refused when shapes are compared
        bias = Part("final_logits_bias", lambda b, _: b[0] if len(b) == 1 else b, lambda b, _: b[None])
        more: Names = {
            "encoder.embedding.tokens.weight": f"model.{'shared' if shared else 'encoder.embed_tokens'}.weight",
            "head.matrix.weight": "lm_head.weight",
            "head.matrix.bias": bias,
        }
        return [*super().rows(theirs), *name_rows(more)]


class Bart(BartLike):
    """BartForConditionalGeneration and BartModel.

    Quirks: learned positions, whose table has two rows before the first position; embeddings are normalised; the head's
    bias is a buffer that transformers does not train.
    """

    model_type = "bart"
    classes = classes_of("Bart", ENCODER_DECODER)
    DEFAULTS: ClassVar = {**BartLike.DEFAULTS, "vocab_size": 50265}
    FIXED: ClassVar = {**BartLike.FIXED, "positions": Positions("learned", start=2), "embedding_norm": True}
    SPECIAL: ClassVar = {
        **{"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
        **{"decoder_start_token_id": 2, "forced_eos_token_id": 2},
    }


class Marian(BartLike):
    """MarianMTModel and MarianModel, the architecture of Opus-MT.

    Quirks: sinusoidal positions, all sines before all cosines; old files contain their tables, which are computed here;
    source and target may have separate vocabularies and tables; the head's bias is a buffer.
    """

    model_type = "marian"
    classes: ClassVar = {Gives.VOCABULARY: "MarianMTModel", Gives.HIDDEN: "MarianModel"}
    separate = True
    DEFAULTS: ClassVar = {**BartLike.DEFAULTS, "vocab_size": 58101}
    FIXED: ClassVar = {**BartLike.FIXED, "positions": Positions("sinusoidal", sinusoids="halves")}
    SPECIAL: ClassVar = {
        **{"pad_token_id": 58100, "eos_token_id": 0},
        **{"decoder_start_token_id": 58100, "forced_eos_token_id": 0},
    }
    ignored = (*BartLike.ignored, r"model\.(encoder|decoder)\.embed_positions\.weight")

    def read_config(self, theirs: Json) -> dict[str, Any]:
        size = pick(theirs, "vocab_size", int, 58101)
        target_size = pick(theirs, "decoder_vocab_size", int, size) or size
        if self.shares(theirs) and target_size != size:
            raise ValueError(f"decoder_vocab_size is {target_size}, but the shared table has {size} tokens")
        return {**super().read_config(theirs), "vocab_size": target_size}

    def encoder_config(self, theirs: Json) -> TransformerConfig:
        return super().encoder_config(theirs).but(vocab_size=pick(theirs, "vocab_size", int, 58101))

    def write_config(self, model: Any) -> Json:
        return {
            **super().write_config(model),
            "vocab_size": model.encoder_config.vocab_size,
            "decoder_vocab_size": model.config.vocab_size,
            "share_encoder_decoder_embeddings": model.shared,
        }

    def stored(self, weights: dict[str, Tensor], theirs: Json, config: TransformerConfig) -> dict[str, Tensor]:
        """With tables of positions for the bare class, which else reports them as missing; MarianMTModel does not."""
        if self.gives(theirs) is not Gives.HIDDEN:
            return weights
        table = sinusoids(torch.arange(config.max_length), config.d_model, "halves")
        return {
            **weights,
            **{name: table.clone() for name in each("model.{}.embed_positions.weight", "encoder", "decoder")},
        }


class M2M100(BartLike):
    """M2M100ForConditionalGeneration and M2M100Model, also of NLLB: many-to-many translation, pre-norm.

    Quirks: its sinusoids have the wavelengths of tensor2tensor, and the first position follows the padding token's id;
    embeddings are multiplied by √D; a target starts with the end-of-sentence token and the token of its language.
    """

    model_type = "m2m_100"
    classes = classes_of("M2M100", ENCODER_DECODER)
    DEFAULTS: ClassVar = {**BartLike.DEFAULTS, "vocab_size": 128112, "activation": "relu", "embedding_scale": True}
    FIXED: ClassVar = {**BartLike.FIXED, "norm_order": "pre", "bias": ("qkv", "out", "ff")}
    SPECIAL: ClassVar = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}

    def read_config(self, theirs: Json) -> dict[str, Any]:
        start = pick(theirs, "pad_token_id", int, 1) + 1
        positions = Positions("sinusoidal", start=start, sinusoids="tensor2tensor")
        return {**super().read_config(theirs), "positions": positions}

    def write_config(self, model: Any) -> Json:
        if model.config.position.start < 1:
            raise ValueError("its first position has the number 1 or more")
        return {**super().write_config(model), "pad_token_id": model.config.position.start - 1}
