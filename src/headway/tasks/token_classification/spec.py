"""Token classification, in words and names."""

from headway.tasks.spec import OF_TEXTS, TaskSpec

SPEC = TaskSpec(
    name="token_classification",
    title="Token classifier",
    verb="tag",
    help="Find the spans of a text, such as names, or those of every text in a file.",
    answers="spans",
    argument='"..."',
    counted="word",
    loss_unit="nats per word",
    logits=0.0,
    outputs="logits of every token",
    compared=("entity_f1", "accuracy"),
    answered="texts tagged",
    headline=("entity_f1", "accuracy"),
    units="quotient",
    options=OF_TEXTS - {"second_column"} | {"token_dropout", "label_smoothing"},
    searched=frozenset({"label_smoothing", "token_dropout"}),
    transformers=("ForTokenClassification",),
)
