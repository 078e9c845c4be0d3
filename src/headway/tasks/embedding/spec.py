"""Vectors of texts, in words and names."""

from headway.tasks.spec import OF_TEXTS, TaskSpec
from headway.training.evaluation.metric import ACCURACY, VAL_LOSS, Metric

MRR = Metric("mrr", "mean reciprocal rank")
SPEARMAN = Metric("spearman", "rank correlation", units="correlation")
ROC_AUC = Metric("roc_auc", "area under the ROC curve", units="area")
AVERAGE_PRECISION = Metric("average_precision", "average precision")

SPEC = TaskSpec(
    name="embedding",
    heads=(("encoder", "vector"), ("encoder", "hidden")),
    title="Text embedder",
    verb="embed",
    help="Turn texts into vectors, compare them, or find the nearest.",
    answers="vectors",
    counted="pair",
    outputs="vectors",
    metrics=(ACCURACY, MRR, SPEARMAN, ROC_AUC, AVERAGE_PRECISION, VAL_LOSS),
    headline=(ROC_AUC, SPEARMAN, ACCURACY),
    compared=(ROC_AUC, SPEARMAN, ACCURACY),
    answered="texts embedded",
    options=OF_TEXTS | {"layout"},
    supports=frozenset(),
)
