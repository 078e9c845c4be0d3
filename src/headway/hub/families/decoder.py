"""What the decoder families share: a class with logits over the vocabulary, one without a head, one with classes."""

from collections.abc import Set
from typing import ClassVar

from torch import nn

from headway.hub.families.family import Family, Json, class_count, class_names
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, gives, n_outputs
from headway.models.transformer import Decoder

SPECIAL_IDS = ("pad_token_id", "bos_token_id", "eos_token_id")


def decoder_classes(name: str) -> dict[Gives, str]:
    """The classes of a decoder family, by what their models give."""
    heads = {Gives.HIDDEN: "Model", Gives.ROW: "ForSequenceClassification"}
    return {Gives.VOCABULARY: f"{name}ForCausalLM", **{result: name + head for result, head in heads.items()}}


class DecoderFamily(Family):
    """A decoder: with logits, without a head, and (if there is such a class) with classes.

    The class without a head returns the normalised vectors of the last layer (``VectorHead``).  The one with classes
    uses the last token's vector: transformers finds that token by ``pad_token_id``, which it needs for batches, Headway
    by the mask.
    """

    ONLY: ClassVar[Json] = {**Family.ONLY, "is_causal": True, "is_encoder_decoder": False, "add_cross_attention": False}
    wiring = "decoder"
    shapes: ClassVar = {Gives.ROW: {"pooling": "last", "dense": False, "out_bias": False}}

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        result, config = self.gives(theirs), self.config(theirs)
        if result is Gives.VOCABULARY:
            return Decoder(config)
        return Decoder(config, self.head(result, config, class_count(theirs) if result is Gives.ROW else None))

    def unquirk(self, model: nn.Module) -> Json | None:
        if not isinstance(model, Decoder):
            return None
        return {**dict.fromkeys(SPECIAL_IDS), **self.entries(model.config), **self._head(model)}

    def entries(self, config: TransformerConfig) -> Json:
        """The entries of ``config.json`` other than ``SAME``, the heads and the special tokens."""
        return {}

    def _head(self, model: Decoder) -> Json:
        result, head = gives(model), model.head
        if result not in self.classes:
            raise ValueError(f"it has no {type(head).__name__}")
        if result is not Gives.ROW:
            return {"architectures": [self.classes[result]]}
        if head.pooling != "last" or head.dense is not None or head.out.bias is not None:
            raise ValueError("its classifier is one matrix over the last token's vector, without a bias")
        return {"architectures": [self.classes[result]], **class_names(n_outputs(model))}
