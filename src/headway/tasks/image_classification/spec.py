"""Classification of pictures, in words and names."""

from headway.tasks.spec import TaskSpec
from headway.training.evaluation.metric import ACCURACY, MACRO_F1, VAL_LOSS

SPEC = TaskSpec(
    name="image_classification",
    title="Image classifier",
    verb="classify",
    help="Name the label of a picture, or of every picture in a folder.",
    reads="picture",
    answers="labels",
    argument="PICTURE",
    counted="picture",
    loss_unit="nats per example",
    logits=0.0,
    outputs="logits of the classes",
    metrics=(ACCURACY, MACRO_F1, VAL_LOSS),
    headline=(ACCURACY,),
    compared=(ACCURACY,),
    answered="pictures classified",
    options=frozenset({"image_size", "patch_size", "augment", "balance", "label_smoothing"}),
    searched=frozenset({"label_smoothing"}),
    transformers=("ForImageClassification",),
)
