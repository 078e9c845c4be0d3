"""``headway classify`` for texts."""

from collections.abc import Iterator
from typing import Any

from headway.tasks.classification.spec import SPEC
from headway.tasks.command import Inputs
from headway.tasks.common.label_command import LabelCommand


class ClassifyTexts(LabelCommand):
    """The labels of texts; in a table also which share of a text's tokens is known, where that is below one half."""

    spec = SPEC

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        super().__init__(pipe, inputs, options)
        self.columns.append("known")

    def rows(self, number: int, one: dict[str, Any]) -> Iterator[list[str]]:
        known = one.get("known", 0.0 if one["label"] is None else None)
        yield from ([*row, "" if known is None else f"{known:.6f}"] for row in super().rows(number, one))


COMMAND = ClassifyTexts
