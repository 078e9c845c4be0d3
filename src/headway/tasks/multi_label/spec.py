"""Several labels for each text, in words and names, and the command that runs its models."""

from headway.tasks.command import label_command
from headway.tasks.spec import OF_ROWS, TaskSpec
from headway.training.evaluation.metric import AVERAGE_PRECISION, MACRO_F1, VAL_LOSS, Metric

MICRO_F1 = Metric("micro_f1", "micro F1", units="quotient")
SUBSET_ACCURACY = Metric("subset_accuracy", "exactly right")

SPEC = TaskSpec(
    name="multi_label",
    heads=(("encoder", "row"), ("decoder", "row")),
    problem="multi_label_classification",
    title="Classifier with several labels for a text",
    verb="classify",
    help="Predict the label of a text, or of every text in a file.",
    answers="labels",
    loss_unit="nats per label",
    outputs="logits of the labels",
    metrics=(MICRO_F1, MACRO_F1, AVERAGE_PRECISION, SUBSET_ACCURACY, VAL_LOSS),
    headline=(MICRO_F1,),
    compared=(MICRO_F1,),
    answer_unit="texts classified",
    options=OF_ROWS,
    supports=frozenset({"ranks"}),
)

COMMAND = label_command(SPEC, several=True, needs="a classifier that gives several labels")
