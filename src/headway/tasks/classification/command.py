"""``headway classify`` for texts."""

from headway.tasks.classification.spec import SPEC
from headway.tasks.common.label_command import LabelCommand


class ClassifyTexts(LabelCommand):
    """The labels of texts."""

    spec = SPEC
    blank_means_nothing = True


COMMAND = ClassifyTexts
