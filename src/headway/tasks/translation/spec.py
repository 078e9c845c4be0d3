"""Translation, and every other task that writes a text for a text, in words and names."""

from headway.tasks.spec import OF_KINDS, OF_TEXTS, TaskSpec
from headway.training.evaluation.metric import BLEU, CHRF, PERPLEXITY, VAL_LOSS, Metric

ACCURACY = Metric("accuracy", "accuracy of each next token given the true beginning")

SPEC = TaskSpec(
    name="translation",
    heads=(("encoder-decoder", "vocabulary"),),
    named_heads=(("decoder", "vocabulary"),),
    title="Translator",
    verb="translate",
    help="Translate or summarize a text, or every text in a file.",
    counted="pair",
    loss_unit="nats per token",
    logits=1.0,
    outputs="logits of every token",
    metrics=(BLEU, CHRF, ACCURACY, VAL_LOSS, PERPLEXITY),
    headline=(CHRF, BLEU, VAL_LOSS),
    compared=(CHRF,),
    writes="targets",
    answered="texts translated",
    models=("transformer", "encoder-decoder", "decoder", "rnn", "lstm", "gru"),
    options=OF_TEXTS | OF_KINDS | {"bpe_dropout", "r_drop", "label_smoothing", "source_language", "target_language"},
    searched=frozenset({"label_smoothing"}),
    also=("summarize",),
    behind=("Train longer or on more pairs, or find known answers with --task embedding.",) * 2,
)
