"""Vectors of texts, in words and names."""

from headway.tasks.spec import OF_TEXTS, TaskSpec

SPEC = TaskSpec(
    name="embedding",
    title="Text embedder",
    verb="embed",
    argument='"..."',
    counted="pair",
    loss_unit="",
    logits=0.0,
    answers="vectors",
    compared=("spearman", "accuracy"),
    answered="texts embedded",
    headline=("spearman", "accuracy"),
    options=OF_TEXTS,
    transformers=("Model", "EncoderModel"),
)
