"""Masked language modelling, in words and names."""

from headway.tasks.spec import OF_TEXTS, TRY_ANOTHER, TaskSpec
from headway.training.evaluation.metric import ACCURACY, PERPLEXITY, VAL_LOSS

SPEC = TaskSpec(
    name="masked_lm",
    heads=(("encoder", "vocabulary"),),
    title="Masked language model",
    verb="fill",
    help="Predict the masked words of a text.",
    answers="spans",
    counted="masked token",
    loss_unit="nats per masked token",
    logits=0.15,
    outputs="logits of every token",
    metrics=(ACCURACY, VAL_LOSS, PERPLEXITY),
    answered="texts filled in",
    options=OF_TEXTS | {"layout", "mlm_probability", "whole_words", "stream", "validation_windows"},
    behind=("That baseline is not kept; train longer, or start from a pretrained model (--from).", TRY_ANOTHER),
)
