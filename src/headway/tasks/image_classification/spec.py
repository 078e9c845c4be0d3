"""Classification of images, in words and names."""

from headway.tasks.spec import TaskSpec
from headway.training.evaluation.metric import ACCURACY, MACRO_F1, VAL_LOSS

SPEC = TaskSpec(
    name="image_classification",
    heads=(("encoder", "row"),),
    title="Image classifier",
    verb="classify",
    help="Predict the label of an image, or of every image in a folder.",
    reads="picture",
    answers="labels",
    argument="IMAGE",
    counted="image",
    loss_unit="nats per example",
    outputs="logits of the classes",
    metrics=(ACCURACY, MACRO_F1, VAL_LOSS),
    headline=(ACCURACY,),
    compared=(ACCURACY,),
    answered="images classified",
    options=frozenset({"image_size", "patch_size", "augment", "balance", "label_smoothing"}),
    searched=frozenset({"label_smoothing"}),
)
