"""A text and several columns to learn in every row of a table."""

from dataclasses import dataclass
from itertools import islice

from headway.data.open.columns import NUMBER, Column, Judging
from headway.data.open.detected import TABLE, TEXT, Detected
from headway.data.records.label_typing import Merging
from headway.errors import InputError
from headway.tasks import registry
from headway.tasks.data_facts import TEXT_AND_LABEL, DataFacts
from headway.tasks.recognise import BY_VALUES, Recogniser
from headway.tasks.unsupported import check_plain_labels

NEARLY_ALL, AT_ONCE = 0.95, 10_000
"""The share of numbers from which a cell that is none is a mistake, and the cells that are held at once."""
TASKS = ("multi_label", "ratings", "regression")
"""The tasks of columns, in the order in which they are asked; a column that none of them recognises holds classes."""
HOLDS = {
    "classification": "classes",
    "multi_label": "lists of labels",
    "ratings": "ratings",
    "regression": "numbers",
}


class LabelColumns(Recogniser):
    """A column of texts, and the label columns that are named."""

    reads = frozenset({TABLE})
    several_labels = True

    def fit(self, facts: DataFacts) -> int | None:
        fits = facts.shape == TABLE and facts.second is None and len(facts.labels) > 1
        return BY_VALUES if fits else None

    def check(self, facts: DataFacts) -> None:
        if facts.shape == TEXT:
            raise facts.no_table(TEXT_AND_LABEL)

    def columns(self, facts: DataFacts) -> Detected:
        reasons: list[str] = []
        text, labels = facts.find_text(reasons), facts.labels
        if len(labels) < 2:
            raise facts.error(f"{self.task} learns several columns; name each with --label-column.")
        if twice := next((name for name in labels if labels.count(name) > 1), None):
            raise InputError(f"--label-column names {twice!r} twice; name each column once.")
        found = {name: task_of(facts, text, name) for name in labels}
        held = ", ".join(f"{name!r} {HOLDS[task]}" for name, task in found.items())
        flags = " (--task multi_label where each column of 0 and 1 is a label)"
        reasons.append(f"of the label columns hold {held}: {self.task}{flags * (set(found.values()) == CLASSES)}")
        reasons.append("transformers has no model of several columns: `headway export --to hf` writes one for each")
        return Detected(self.task, text, None, reasons, label_columns=labels)


CLASSES = {"classification"}


@dataclass(frozen=True)
class ColumnFacts(DataFacts):
    """The facts of a table for one label column, which is judged by what is filled in it."""

    judged: Column | None = None

    @property
    def columns(self) -> list[Column]:
        return [self.judged if self.judged and one.name == self.label else one for one in super().columns]


def task_of(facts: DataFacts, text: str, column: str) -> str:
    """The task of a label column by itself; where nearly all cells are numbers, others are mistakes."""
    check_plain_labels(facts, column)
    filled, numbers, counts = Judging(column), Judging(column), [0, 0]
    missing, cells = Merging().is_missing, iter(facts.values(column))
    for part in iter(lambda: list(islice(cells, AT_ONCE)), []):
        there = [cell for cell in part if not missing(cell)]
        numeric = [cell for cell in there if NUMBER.fullmatch(cell.strip())]
        filled.add(there)
        numbers.add(numeric)
        counts = [counts[0] + len(there), counts[1] + len(numeric)]
    judged = (numbers if counts[1] >= NEARLY_ALL * counts[0] else filled).column()
    alone = ColumnFacts(facts.source, text, column, judged=judged)
    return next((name for name in TASKS if registry.recogniser(name).fit(alone)), "classification")


RECOGNISER = LabelColumns("multi_column")
