"""How a task recognises its data (``tasks/NAME/recognise.py``), without torch; ``tasks.detect`` asks every task."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from headway.data.formats.json_lines import from_json
from headway.data.open.columns import TABLE, TEXT, Column, Detected
from headway.data.records.dialogues import check_column
from headway.data.records.rows import shorten
from headway.errors import InputError
from headway.tasks.data_facts import TEXT_AND_LABEL, DataFacts
from headway.tasks.unsupported import refuse_targets

BY_VALUES, BY_NAMES, BY_LABELS, BY_TEXTS = 4, 3, 2, 1
"""How well data fit, from the best: by their shape or their values, by the names of columns, since a column looks like
a label, since there are texts.  Data for which there is no task come after the first (``tasks.unsupported``)."""


class Recogniser:
    """How a task recognises its data.

    As it is, for a task outside the package: chosen only where ``--task`` names it, text and label found by the rules
    that all tasks share.
    """

    reads: frozenset[str] = frozenset({TEXT, TABLE})
    """the shapes of data that it reads"""
    fits: Mapping[str, int] = {}
    """of these, how well data fit by their shape alone"""
    running_text: bool = False
    """whether it reads the text column of a table as running text"""
    trains: str = ""
    """what it trains, for messages where that is not the task's name"""
    several_labels: bool = False
    """whether several columns of labels can be named"""

    level: int = BY_VALUES
    """how well a table fits in which ``find`` finds something"""

    def __init__(self, task: str):
        self.task = task

    def check(self, facts: DataFacts) -> None:
        """Raise InputError for data of another shape, where the task has more to say than that."""

    def wants_conversations(self, asked: str) -> bool:
        """Whether a table of prompts and replies is read as conversations with this value of ``--task``."""
        return False

    def fit(self, facts: DataFacts) -> int | None:
        """How well data fit where no task is named; None where they do not.  Raises InputError for mixed files."""
        readable = facts.shape == TABLE and facts.second is None and len(facts.labels) < 2
        return self.level if readable and facts.cached(self.find) else self.fits.get(facts.shape)

    def find(self, facts: DataFacts) -> Any:
        """What is to be learnt of a table of texts, where the task is recognised by it."""
        return None

    def columns(self, facts: DataFacts) -> Detected:
        """The columns of data that fit, or that the task was asked for.  Raises InputError where they are unclear."""
        if facts.shape == TEXT:
            return Detected(self.task, facts.only_column, None, [f"running text: {facts.asked}, as asked"])
        reasons: list[str] = []
        text = facts.find_text(reasons)
        label = facts.find_label(text, reasons)
        return Detected(self.task, text, label, [*reasons, f"task: {facts.asked}, as asked"])


class RunningText(Recogniser):
    """Running text, whole or as the rows of a column; labels are not read."""

    running_text = True

    def __init__(self, task: str, words: str):
        """``words``: the task in words, for the reasons."""
        super().__init__(task)
        self.words = words

    def columns(self, facts: DataFacts) -> Detected:
        if facts.shape == TEXT:
            return self._text(facts)
        if facts.label is not None:
            raise InputError("a language model has no label; leave out --label-column, or use --task classification.")
        reasons: list[str] = []
        if facts.text is None:
            _check_nested(facts)
        text = facts.find_text(reasons)
        if facts.text is None:
            check_column(facts.source.path, text, facts.first(text))
        if facts.asked is None:
            refuse_targets(replace(facts, text=text))
            reasons.append(f"no column looks like a label: {self.words} (--label-column to classify)")
        else:
            reasons.append(f"task: {self.words}, as asked")
        return Detected(self.task, text, None, reasons)

    def _text(self, facts: DataFacts) -> Detected:
        if facts.label is not None:
            raise facts.no_table(TEXT_AND_LABEL)
        facts.check_no_second()
        column = facts.only_column
        if column is not None and facts.text is None:
            texts = [text for text, _ in islice(facts.source.chunks(), 100)]
            check_column(facts.source.paths[0], column, next(iter(texts), ""))
            if texts and all(isinstance(from_json(text.strip()), list | dict) for text in texts):
                raise _not_text(facts, column, texts[0])
        why = "running text" if column is None else f"one column, {column!r}: each row is a document"
        return Detected(self.task, column, None, [f"{why}: {self.ending(facts)}"])

    def ending(self, facts: DataFacts) -> str:
        """The task in words, at the end of the reason for running text."""
        return f"{self.words}, as asked"


def _check_nested(facts: DataFacts) -> None:
    """Raise InputError where lists or objects hold more than the texts, which no usual name shows to be the texts."""
    nested = max((one for one in facts.columns if one.nested), key=lambda one: one.mean_length, default=None)
    if nested is None:
        return
    first, texts = facts.first(nested.name), facts.likely_texts
    check_column(facts.source.path, nested.name, first)
    if not texts or (not texts[0].called("text") and texts[0].mean_length < nested.mean_length):
        raise _not_text(facts, nested.name, first)


def _not_text(facts: DataFacts, column: str, value: str) -> InputError:
    return facts.error(
        f"column {column!r} holds lists or objects ({shorten(value)}), expected texts. Write each part into a column "
        "of its own; --text-column names a column to train on as plain text."
    )


class OfTable(Recogniser):
    """A column of texts and something to learn of each in every row of a table."""

    reads = frozenset({TABLE})

    def check(self, facts: DataFacts) -> None:
        if facts.shape == TEXT:
            raise facts.no_table(TEXT_AND_LABEL)


class TextAndValue(OfTable):
    """The named columns; else a text as for all tasks, and the value in a column called like a label or the last one.

    Chosen where ``--task`` names the task, or by ``find``, a column of values for which ``why`` gives the reason.
    """

    level = BY_NAMES
    roles = "{0!r} is the text, {1!r} its value"
    """the columns in words"""
    same = "column {0!r} cannot be the text and its value at once."
    """what is wrong where one column has two roles"""

    def check(self, facts: DataFacts) -> None:
        if facts.shape == TEXT:
            raise facts.error(f"this is running text; {self.task} needs a table of texts with a value each.")

    def texts(self, facts: DataFacts) -> tuple[str, ...]:
        """The columns of texts.  Raises InputError where they are unclear."""
        facts.check_no_second()
        rest = [name for name in facts.names if name != facts.label]
        return (facts.text or (rest[0] if len(rest) == 1 else facts.only_text().name),)

    def why(self, facts: DataFacts, column: Column) -> str:
        """What shows that a column which was found holds the values."""
        return ""

    def columns(self, facts: DataFacts) -> Detected:
        if facts.asked is None and (column := facts.cached(self.find)) is not None:
            reasons: list[str] = []
            text = facts.find_text(reasons)
            return Detected(self.task, text, column.name, [*reasons, self.why(facts, column)])
        texts = self.texts(facts)
        found = (*texts, facts.label or _value(facts, texts))
        if len(set(found)) < len(found):
            raise facts.error(self.same.format(*found))
        reason = f"{self.task}, as asked: {self.roles.format(*found)}"
        return Detected(self.task, texts[0], found[-1], [reason], None if len(texts) == 1 else texts[1])


class TwoTextsAndValue(TextAndValue):
    """The named columns; else two columns of texts, and the value in a column called like a label or the only other."""

    roles = "{0!r} and {1!r} are the texts, {2!r} their value"
    same = "the two texts and their value must be three different columns."

    def texts(self, facts: DataFacts) -> tuple[str, ...]:
        return facts.two_texts(self.task, [column for column in facts.columns if column.name != facts.label])


def _value(facts: DataFacts, texts: tuple[str, ...]) -> str:
    """The column of values: the only one left, or the only one that is called like a label."""
    rest = [name for name in facts.names if name not in texts]
    called = [column.name for column in facts.columns if column.called("label") and column.name in rest]
    if len(found := rest if len(rest) == 1 else called) != 1:
        names = ", ".join(facts.names)
        raise facts.error(f"which column holds the value of each text? Name it with --label-column; found: {names}.")
    return found[0]
