"""What the decoder families share: a class with logits over the vocabulary, one without a head, one with classes."""

from collections.abc import Set
from typing import ClassVar

from torch import nn

from headway.hub.families.family import Family, Json, architecture, class_count, class_names
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, TokenHead, VectorHead
from headway.models.transformer import Decoder

SPECIAL_IDS = ("pad_token_id", "bos_token_id", "eos_token_id")


class DecoderFamily(Family):
    """A decoder.  ``classes`` are, in this order: with logits, without a head, and (if there is one) with classes.

    The class without a head returns the normalised vectors of the last layer (``VectorHead``).  The one with classes
    uses the last token's vector: transformers finds that token by ``pad_token_id``, which it needs for batches, Headway
    by the mask.
    """

    ONLY: ClassVar[Json] = {**Family.ONLY, "is_causal": True, "is_encoder_decoder": False, "add_cross_attention": False}
    CLASSIFIER: ClassVar = {"pooling": "last", "dense": False, "out_bias": False}

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        kind, config = architecture(theirs, self.classes), self.config(theirs)
        if kind == self.bare:
            return Decoder(config, VectorHead())
        if kind == self.classifier:
            return Decoder(config, self.classification_head(config, class_count(theirs)))
        return Decoder(config)

    def unquirk(self, model: nn.Module) -> Json | None:
        if not isinstance(model, Decoder):
            return None
        return {**dict.fromkeys(SPECIAL_IDS), **self.entries(model.config), **self._head(model.head)}

    def entries(self, config: TransformerConfig) -> Json:
        """The entries of ``config.json`` other than ``SAME``, the heads and the special tokens."""
        return {}

    def _head(self, head: nn.Module) -> Json:
        if isinstance(head, TokenHead):
            return {"architectures": [self.classes[0]]}
        if isinstance(head, VectorHead):
            return {"architectures": [self.bare]}
        if isinstance(head, ClassificationHead) and self.classifier is not None:
            if head.pooling != "last" or head.dense is not None or head.out.bias is not None:
                raise ValueError("its classifier is one matrix over the last token's vector, without a bias")
            return {"architectures": [self.classifier], **class_names(head.out.out_features)}
        raise ValueError(f"it has no {type(head).__name__}")
