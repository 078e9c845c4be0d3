"""BART (Lewis et al. 2019): an encoder-decoder with learned positions, normalised after each residual.

Quirks: the table of positions has two rows before the first position; embeddings are normalised; the head's bias is a
buffer that transformers does not train.
"""

from typing import ClassVar

from headway.hub.families.encoder_decoder import EncoderDecoderFamily
from headway.models.config import Positions
from headway.models.heads import Gives


class Bart(EncoderDecoderFamily):
    """BartForConditionalGeneration and BartModel."""

    model_type = "bart"
    classes: ClassVar = {Gives.VOCABULARY: "BartForConditionalGeneration", Gives.HIDDEN: "BartModel"}
    SAME: ClassVar = {**EncoderDecoderFamily.SAME, "vocab_size": ("vocab_size", 50265)}
    FIXED: ClassVar = {
        **EncoderDecoderFamily.FIXED,
        "positions": Positions("learned", start=2),
        "norm_order": "post",
        "embedding_norm": True,
    }

    SPECIAL: ClassVar = {
        **{"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
        **{"decoder_start_token_id": 2, "forced_eos_token_id": 2},
    }


BART = Bart()
