"""Classification of images, in words and names, and the command that runs its models."""

from collections.abc import Sequence
from typing import Any

from headway.tasks.command import LabelCommand
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
    unit="image",
    loss_unit="nats per example",
    outputs="logits of the classes",
    metrics=(ACCURACY, MACRO_F1, VAL_LOSS),
    headline=(ACCURACY,),
    compared=(ACCURACY,),
    answer_unit="images classified",
    options=frozenset({"image_size", "patch_size", "augment", "balance", "label_smoothing"}),
    searched=frozenset({"label_smoothing"}),
)


class ClassifyImages(LabelCommand):
    """The labels of images, by the names of their files."""

    spec = SPEC

    @property
    def tokens(self) -> int:
        return max(1, super().tokens // self.pipe.model.config.max_length)

    def answer(self, part: Sequence[str]) -> Sequence[dict[str, Any]]:
        return [{"file": file, **one} for file, one in zip(part, super().answer(part), strict=True)]


COMMAND = ClassifyImages
