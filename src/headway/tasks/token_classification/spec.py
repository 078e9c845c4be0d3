"""Token classification, in words and names."""

from headway.tasks.spec import OF_TEXTS, TaskSpec
from headway.training.evaluation.metric import ACCURACY, VAL_LOSS, Metric

ENTITY_F1 = Metric("entity_f1", "entity F1", units="quotient")
ENTITY_PRECISION = Metric("entity_precision", "entity precision")
ENTITY_RECALL = Metric("entity_recall", "entity recall")

SPEC = TaskSpec(
    name="token_classification",
    heads=(("encoder", "token"),),
    title="Token classifier",
    verb="tag",
    help="Find spans, such as names, in a text or in every text of a file.",
    answers="spans",
    counted="word",
    loss_unit="nats per word",
    outputs="logits of every token",
    metrics=(ENTITY_F1, ENTITY_PRECISION, ENTITY_RECALL, ACCURACY, VAL_LOSS),
    headline=(ENTITY_F1, ACCURACY),
    compared=(ENTITY_F1, ACCURACY),
    answered="texts tagged",
    options=OF_TEXTS - {"second_column"} | {"layout", "token_dropout", "label_smoothing"},
    searched=frozenset({"label_smoothing", "token_dropout"}),
)
