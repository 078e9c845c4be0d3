"""Numbers of texts, in words and names, and the command that runs the models."""

from headway.tasks.answers import Number
from headway.tasks.command import plain_command
from headway.tasks.spec import OF_ROWS, TaskSpec
from headway.training.evaluation.metric import VAL_LOSS, Metric

MEAN_ABSOLUTE_ERROR = Metric("mean_absolute_error", "mean absolute error", lower_is_better=True, units="loss")
R2 = Metric("r2", "R²")
SPEARMAN = Metric("spearman", "rank correlation")

SPEC = TaskSpec(
    name="regression",
    heads=(("encoder", "row"),),
    problem="regression",
    title="Predictor of a number",
    help="Predict the number of a text, or of every text in a file.",
    answers="number",
    loss_unit="squared error, in variances of the training numbers",
    outputs="numbers",
    metrics=(MEAN_ABSOLUTE_ERROR, R2, SPEARMAN, VAL_LOSS),
    headline=(MEAN_ABSOLUTE_ERROR,),
    compared=(MEAN_ABSOLUTE_ERROR,),
    answer_unit="numbers predicted",
    options=OF_ROWS,
)


COMMAND = plain_command(SPEC, answers=Number, needs="a model that predicts a number", keeps_columns=True)
