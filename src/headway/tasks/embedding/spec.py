"""Vectors of texts, in words and names."""

from headway.tasks.spec import OF_TEXTS, TaskSpec

SPEC = TaskSpec(
    name="embedding",
    title="Text embedder",
    verb="embed",
    help="Turn texts into vectors, compare them, or find the nearest.",
    answers="vectors",
    argument='"..."',
    counted="pair",
    loss_unit="",
    logits=0.0,
    outputs="vectors",
    compared=("spearman", "accuracy"),
    answered="texts embedded",
    headline=("spearman", "accuracy"),
    options=OF_TEXTS,
    transformers=("Model", "EncoderModel"),
    supports=frozenset(),
)
