"""How a task recognises its data (``tasks/NAME/recognise.py``), without torch; ``tasks.detect`` asks every task."""

from headway.data.open.detected import TABLE, TEXT, Detected
from headway.tasks.common.columns import find_label, find_text
from headway.tasks.common.given import Given

BY_VALUES, BY_NAMES, BY_LABELS, BY_TEXTS = 4, 3, 2, 1
"""How well data fit, from the best: by their shape or their values, by the names of columns, since a column looks like
a label, since there are texts.  Data for which there is no task come after the first (``tasks.common.unsupported``)."""


class Recogniser:
    """How a task recognises its data.

    As it is, for a task outside the package: chosen only where ``--task`` names it, text and label found by the rules
    that all tasks share.
    """

    reads: frozenset[str] = frozenset({TEXT, TABLE})
    """the shapes of data that it reads"""
    running_text: bool = False
    """whether it reads the text column of a table as running text"""

    trains: str = ""
    """what it trains, for messages where that is not the task's name"""

    def __init__(self, task: str):
        self.task = task

    def check(self, given: Given) -> None:
        """Raise InputError for data of another shape, where the task has more to say than that."""

    def wants_conversations(self, asked: str) -> bool:
        """Whether a table of prompts and replies is read as conversations with this value of ``--task``."""
        return False

    def fit(self, given: Given) -> int | None:
        """How well data fit where no task is named; None where they do not.  Raises InputError for mixed files."""
        return None

    def columns(self, given: Given) -> Detected:
        """The columns of data that fit, or that the task was asked for.  Raises InputError where they are unclear."""
        if given.shape == TEXT:
            return Detected(self.task, given.only_column, None, [f"running text: {given.asked}, as asked"])
        reasons: list[str] = []
        text = find_text(given, reasons)
        label = find_label(given, text, reasons)
        return Detected(self.task, text, label, [*reasons, f"task: {given.asked}, as asked"])
