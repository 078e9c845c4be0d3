"""Marian (Junczys-Dowmunt et al. 2018), the architecture of Opus-MT: an encoder-decoder with sinusoidal positions.

Quirks: all sines precede all cosines; old files contain their tables, which are computed here; source and target may
have separate vocabularies and tables; the head's bias is a buffer.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headway.hub.families.encoder_decoder import EncoderDecoderFamily
from headway.hub.families.family import Json, pick
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import Gives
from headway.models.transformer import EncoderDecoder
from headway.nn.positions import sinusoids


class Marian(EncoderDecoderFamily):
    """MarianMTModel and MarianModel."""

    model_type = "marian"
    classes: ClassVar = {Gives.VOCABULARY: "MarianMTModel", Gives.HIDDEN: "MarianModel"}
    separate = True
    SAME: ClassVar = {**EncoderDecoderFamily.SAME, "vocab_size": ("vocab_size", 58101)}
    FIXED: ClassVar = {
        **EncoderDecoderFamily.FIXED,
        "positions": Positions("sinusoidal", sinusoids="halves"),
        "norm_order": "post",
    }
    SPECIAL: ClassVar = {
        **{"pad_token_id": 58100, "eos_token_id": 0},
        **{"decoder_start_token_id": 58100, "forced_eos_token_id": 0},
    }
    ignored = (*EncoderDecoderFamily.ignored, r"model\.(encoder|decoder)\.embed_positions\.weight")

    def shares(self, theirs: Json) -> bool:
        return pick(theirs, "share_encoder_decoder_embeddings", bool, True)

    def quirks(self, theirs: Json) -> dict[str, Any]:
        size = pick(theirs, "vocab_size", int, 58101)
        target_size = pick(theirs, "decoder_vocab_size", int, size) or size
        if self.shares(theirs) and target_size != size:
            raise ValueError(f"decoder_vocab_size is {target_size}, but the shared table has {size} tokens")
        return {**super().quirks(theirs), "vocab_size": target_size}

    def encoder_config(self, theirs: Json) -> TransformerConfig:
        return super().encoder_config(theirs).but(vocab_size=pick(theirs, "vocab_size", int, 58101))

    def unquirk(self, model: nn.Module) -> Json | None:
        entries = super().unquirk(model)
        if entries is None or not isinstance(model, EncoderDecoder):
            return None
        return {
            **entries,
            "vocab_size": model.encoder_config.vocab_size,
            "decoder_vocab_size": model.config.vocab_size,
            "share_encoder_decoder_embeddings": model.shared,
        }

    def stored(self, weights: dict[str, Tensor], theirs: Json, config: TransformerConfig) -> dict[str, Tensor]:
        """With tables of positions for the bare class, which else reports them as missing; MarianMTModel does not."""
        if self.gives(theirs) is not Gives.HIDDEN:
            return weights
        table = sinusoids(torch.arange(config.max_length), config.d_model, "halves")
        names = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
        return {**weights, **{name: table.clone() for name in names}}


MARIAN = Marian()
