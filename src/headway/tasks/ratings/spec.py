"""Ratings of texts, in words and names, and the command that runs the models."""

from headway.tasks.answers import Rating
from headway.tasks.command import label_command
from headway.tasks.spec import OF_ROWS, TaskSpec
from headway.training.evaluation.metric import ACCURACY, MACRO_F1, VAL_LOSS, Metric

QUADRATIC_KAPPA = Metric("quadratic_kappa", "quadratic kappa")

SPEC = TaskSpec(
    name="ratings",
    named_heads=(("encoder", "row"), ("decoder", "row")),
    title="Rater of texts",
    verb="classify",
    help="Predict the label of a text, or of every text in a file.",
    answers="labels",
    loss_unit="nats and squared levels per text",
    outputs="logits of the levels",
    metrics=(QUADRATIC_KAPPA, ACCURACY, MACRO_F1, VAL_LOSS),
    headline=(ACCURACY,),
    compared=(ACCURACY,),
    answer_unit="texts rated",
    options=OF_ROWS,
)

COMMAND = label_command(SPEC, answers=Rating, needs="a model that rates texts", does="Rate TEXT with the model in RUN.")
