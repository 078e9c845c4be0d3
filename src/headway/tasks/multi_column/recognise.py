"""A text and several columns to learn in every row of a table."""

from headway.data.open.columns import TABLE, Detected
from headway.errors import InputError
from headway.tasks import registry
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import BY_VALUES, OfTable
from headway.tasks.unsupported import check_plain_labels

TASKS = ("multi_label", "ratings", "regression")
"""The tasks of columns, in the order in which they are asked; a column that none of them recognises holds classes."""
HOLDS = {
    "classification": "classes",
    "multi_label": "lists of labels",
    "ratings": "ratings",
    "regression": "numbers",
}


class LabelColumns(OfTable):
    """A column of texts, and the label columns that are named."""

    several_labels = True

    def fit(self, facts: DataFacts) -> int | None:
        fits = facts.shape == TABLE and facts.second is None and len(facts.labels) > 1
        return BY_VALUES if fits else None

    def columns(self, facts: DataFacts) -> Detected:
        reasons: list[str] = []
        text, labels = facts.find_text(reasons), facts.labels
        if len(labels) < 2:
            raise facts.error(f"{self.task} learns several columns; name each with --label-column.")
        if twice := next((name for name in labels if labels.count(name) > 1), None):
            raise InputError(f"--label-column names {twice!r} twice; name each column once.")
        tasks = {name: task_of(facts, text, name) for name in labels}
        held = ", ".join(f"{name!r} {HOLDS[task]}" for name, task in tasks.items())
        flags = " (--task multi_label where each column of 0 and 1 is a label)"
        reasons.append(f"of the label columns hold {held}: {self.task}{flags * (set(tasks.values()) == CLASSES)}")
        reasons.append("transformers has no model of several columns: `headway export --to hf` writes one for each")
        return Detected(self.task, text, None, reasons, label_columns=labels)


CLASSES = {"classification"}


def task_of(facts: DataFacts, text: str, column: str) -> str:
    """The task of a label column by itself; where nearly all cells are numbers, others are mistakes."""
    check_plain_labels(facts, column)
    alone = DataFacts(facts.source, text, column)
    return next((name for name in TASKS if registry.recogniser(name).fit(alone)), "classification")


RECOGNISER = LabelColumns("multi_column")
