"""RoBERTa (Liu et al. 2019) and XLM-RoBERTa (Conneau et al. 2020): BERT's encoder, without the next-sentence task.

Quirks: positions start after the padding token's id, and the rows before count in the table's size; one segment; the
masked-token head has GELU whatever the blocks have; the classifier has its own dense layer and does not use the pooler.
"""

from typing import Any, ClassVar

from torch import nn

from headway.hub.families.bert import Bert
from headway.hub.families.encoder import EncoderFamily, encoder_classes
from headway.hub.families.family import Json, pick
from headway.models.config import Positions
from headway.models.heads import Gives
from headway.models.transformer import Encoder


class Roberta(Bert):
    """RobertaModel, and with heads for masked tokens, classes of texts and classes of tokens."""

    model_type = "roberta"
    classes = encoder_classes("Roberta")
    others: ClassVar = {}
    shapes: ClassVar = {**Bert.shapes, Gives.VOCABULARY: {"activation": "gelu"}}
    prefix = "roberta."
    pools_classes = False
    SAME: ClassVar = {**Bert.SAME, "vocab_size": ("vocab_size", 50265)}
    ignored = (r"roberta\.embeddings\.(position|token_type)_ids",)
    TOKEN_MATRIX: ClassVar = "lm_head.decoder"
    TOKEN_BIAS: ClassVar = "lm_head.bias"

    def quirks(self, theirs: Json) -> dict[str, Any]:
        start = pick(theirs, "pad_token_id", int, 1) + 1
        rows = pick(theirs, "max_position_embeddings", int, 512)
        if start < 1 or rows <= start:
            raise ValueError(
                f"max_position_embeddings is {rows}, but must exceed pad_token_id + 1 = {start}, which is ≥ 1"
            )
        return {**super().quirks(theirs), "positions": Positions("learned", start=start), "max_length": rows - start}

    def unquirk(self, model: nn.Module) -> Json | None:
        entries = super().unquirk(model)
        if entries is None or not isinstance(model, Encoder):
            return None
        start = model.config.position.start
        return {**entries, "pad_token_id": start - 1, "max_position_embeddings": model.config.max_length + start}

    def reuse(self, model: Encoder, head: Any) -> None:
        EncoderFamily.reuse(self, model, head)  # the classifier does not use the pooler

    def head_names(self, result: Gives) -> tuple[tuple[str, str], ...]:
        if result is Gives.TOKEN:
            return (("head.out", "classifier"),)
        if result is Gives.ROW:
            return (("head.dense", "classifier.dense"), ("head.out", "classifier.out_proj"))
        return (("head.dense", "lm_head.dense"), ("head.norm", "lm_head.layer_norm"))


class XlmRoberta(Roberta):
    """RoBERTa under the names XLMRobertaModel, XLMRobertaForMaskedLM and XLMRobertaForSequenceClassification."""

    model_type = "xlm-roberta"
    classes = encoder_classes("XLMRoberta")
    SAME: ClassVar = {**Bert.SAME, "vocab_size": ("vocab_size", 30522)}


ROBERTA, XLM_ROBERTA = Roberta(), XlmRoberta()
