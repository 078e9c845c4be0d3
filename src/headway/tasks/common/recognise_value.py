"""A table of texts with a value each: what a task of another package reads, unless it says otherwise."""

from headway.data.open.column_names import LABEL_NAMES
from headway.data.open.detected import Detected
from headway.data.open.shapes import TABLE, TEXT
from headway.errors import InputError
from headway.tasks.common.columns import check_no_second, only_text
from headway.tasks.common.given import Given
from headway.tasks.recognise import Recogniser


class TextAndValue(Recogniser):
    """The named columns; else a text as for all tasks, and the value in a column called like a label or the last one.

    Chosen only where ``--task`` names the task.
    """

    reads = frozenset({TABLE})

    def check(self, given: Given) -> None:
        if given.shape == TEXT:
            raise InputError(
                f"{given.name}: this is running text; {self.task} needs a table of texts with a value each."
            )

    def columns(self, given: Given) -> Detected:
        check_no_second(given)
        names, text, value = given.table.columns, given.text, given.label
        if text is None:
            rest = [name for name in names if name != value]
            text = rest[0] if len(rest) == 1 else only_text(given).name
        if value is None:
            rest = [name for name in names if name != text]
            called = [column.name for column in given.columns if column.key in LABEL_NAMES and column.name in rest]
            found = rest if len(rest) == 1 else called
            if len(found) != 1:
                raise InputError(
                    f"{given.name}: which column holds the value of each text? Name it with --label-column; found: "
                    f"{', '.join(names)}."
                )
            value = found[0]
        if text == value:
            raise InputError(f"{given.name}: column {text!r} cannot be the text and its value at once.")
        return Detected(self.task, text, value, [f"{self.task}, as asked: {text!r} is the text, {value!r} its value"])
