"""``headway classify`` for images."""

from collections.abc import Sequence
from typing import Any

from headway.tasks.common.label_command import LabelCommand
from headway.tasks.image_classification.spec import SPEC


class ClassifyImages(LabelCommand):
    """The labels of images, by the names of their files."""

    spec = SPEC

    @property
    def tokens(self) -> int:
        return max(1, super().tokens // self.pipe.model.config.max_length)

    def answer(self, part: Sequence[str]) -> Sequence[dict[str, Any]]:
        return [{"file": file, **one} for file, one in zip(part, super().answer(part), strict=True)]


COMMAND = ClassifyImages
