"""M2M-100 (Fan et al. 2020) and NLLB, which has the same layout: many-to-many translation, pre-norm.

Quirks: its sinusoids have the wavelengths of tensor2tensor, and the first position follows the padding token's id;
embeddings are multiplied by √D; a target starts with the end-of-sentence token and the token of its language.
"""

from typing import Any, ClassVar

from torch import nn

from headway.hub.families.encoder_decoder import EncoderDecoderFamily
from headway.hub.families.family import Json, pick
from headway.models.config import Positions
from headway.models.heads import Gives
from headway.models.transformer import EncoderDecoder


class M2M100(EncoderDecoderFamily):
    """M2M100ForConditionalGeneration and M2M100Model."""

    model_type = "m2m_100"
    classes: ClassVar = {Gives.VOCABULARY: "M2M100ForConditionalGeneration", Gives.HIDDEN: "M2M100Model"}
    SAME: ClassVar = {
        **EncoderDecoderFamily.SAME,
        "vocab_size": ("vocab_size", 128112),
        "activation_function": ("activation", "relu"),
        "scale_embedding": ("embedding_scale", True),
    }
    FIXED: ClassVar = {**EncoderDecoderFamily.FIXED, "norm_order": "pre", "bias": ("qkv", "out", "ff")}
    SPECIAL: ClassVar = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}

    def quirks(self, theirs: Json) -> dict[str, Any]:
        start = pick(theirs, "pad_token_id", int, 1) + 1
        return {**super().quirks(theirs), "positions": Positions("sinusoidal", start=start, sinusoids="tensor2tensor")}

    def unquirk(self, model: nn.Module) -> Json | None:
        entries = super().unquirk(model)
        if entries is None or not isinstance(model, EncoderDecoder):
            return None
        if model.config.position.start < 1:
            raise ValueError("its first position has the number 1 or more")
        return {**entries, "pad_token_id": model.config.position.start - 1}


M2M_100 = M2M100()
