"""Language modelling of running text and of conversations, in words and names."""

from headway.tasks.spec import OF_KINDS, OF_TEXTS, TRY_ANOTHER, TaskSpec
from headway.training.evaluation.metric import BITS_PER_BYTE, PERPLEXITY, VAL_LOSS

SPEC = TaskSpec(
    name="language_modeling",
    heads=(("decoder", "vocabulary"),),
    title="Language model",
    verb="generate",
    help="Continue a text with a language model.",
    counted="token",
    loss_unit="nats per token",
    logits=1.0,
    outputs="logits of every token",
    metrics=(VAL_LOSS, BITS_PER_BYTE, PERPLEXITY),
    compared=(BITS_PER_BYTE, VAL_LOSS),
    writes="continuations",
    answered="tokens written",
    models=("transformer", "rnn", "lstm", "gru"),
    options=OF_TEXTS | OF_KINDS | {"layout", "stream", "label_smoothing", "validation_windows"},
    also=("dialogue",),
    behind=("That baseline is not kept; train longer, or start from a pretrained model (--from).", TRY_ANOTHER),
    supports=frozenset({"ranks", "planning"}),
)
