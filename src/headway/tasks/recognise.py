"""How a task recognises its data (``tasks/NAME/recognise.py``), without torch; ``tasks.detect`` asks every task."""

from dataclasses import replace
from itertools import islice

from headway.data.formats.json_lines import from_json
from headway.data.open.column_names import LABEL_NAMES, TEXT_NAMES
from headway.data.open.detected import TABLE, TEXT, Detected
from headway.data.records.dialogues import check_column
from headway.data.records.rows import shorten
from headway.errors import InputError
from headway.tasks.columns import (
    check_no_second,
    find_label,
    find_text,
    likely_texts,
    no_labels,
    only_text,
    two_texts,
)
from headway.tasks.given import Given
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
    running_text: bool = False
    """whether it reads the text column of a table as running text"""

    trains: str = ""
    """what it trains, for messages where that is not the task's name"""
    several_labels: bool = False
    """whether several columns of labels can be named"""

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


class RunningText(Recogniser):
    """Running text, whole or as the rows of a column; labels are not read."""

    running_text = True

    def __init__(self, task: str, words: str):
        """``words``: the task in words, for the reasons."""
        super().__init__(task)
        self.words = words

    def columns(self, given: Given) -> Detected:
        if given.shape == TEXT:
            return self._text(given)
        if given.label is not None:
            raise InputError("a language model has no label; leave out --label-column, or use --task classification.")
        reasons: list[str] = []
        if given.text is None:
            _check_nested(given)
        text = find_text(given, reasons)
        if given.text is None:
            check_column(given.table.path, text, _first(given, text))
        if given.asked is not None:
            return Detected(self.task, text, None, [*reasons, f"task: {self.words}, as asked"])
        refuse_targets(replace(given, text=text))
        reasons.append(f"no column looks like a label: {self.words} (--label-column to classify)")
        return Detected(self.task, text, None, reasons)

    def _text(self, given: Given) -> Detected:
        if given.label is not None:
            raise no_labels(given)
        check_no_second(given)
        column = given.only_column
        if column is not None and given.text is None:
            texts = [text for text, _ in islice(given.corpus.chunks(), 100)]
            check_column(given.corpus.paths[0], column, next(iter(texts), ""))
            if texts and all(isinstance(from_json(text.strip()), list | dict) for text in texts):
                raise _not_text(given, column, texts[0])
        why = "running text" if column is None else f"one column, {column!r}: each row is a document"
        return Detected(self.task, column, None, [f"{why}: {self.ending(given)}"])

    def ending(self, given: Given) -> str:
        """The task in words, at the end of the reason for running text."""
        return f"{self.words}, as asked"


def _first(given: Given, column: str) -> str:
    return next((value for value in given.values(column) if value.strip()), "")


def _check_nested(given: Given) -> None:
    """Raise InputError where lists or objects hold more than the texts, which no usual name shows to be the texts."""
    nested = max((one for one in given.columns if one.nested), key=lambda one: one.mean_length, default=None)
    if nested is None:
        return
    check_column(given.table.path, nested.name, _first(given, nested.name))
    texts = likely_texts(given)
    if not texts or (texts[0].key not in TEXT_NAMES and texts[0].mean_length < nested.mean_length):
        raise _not_text(given, nested.name, _first(given, nested.name))


def _not_text(given: Given, column: str, value: str) -> InputError:
    return InputError(
        f"{given.name}: column {column!r} holds lists or objects ({shorten(value)}), expected texts. Write each part "
        "into a column of its own; --text-column names a column to train on as plain text."
    )


def the_value(given: Given, among: list[str]) -> str:
    """The column of values: the only one, or the only one that is called like a label.  Raises InputError."""
    called = [column.name for column in given.columns if column.key in LABEL_NAMES and column.name in among]
    values = among if len(among) == 1 else called
    if len(values) != 1:
        raise InputError(
            f"{given.name}: which column holds the value of each text? Name it with --label-column; found: "
            f"{', '.join(given.table.columns)}."
        )
    return values[0]


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
        value = value or the_value(given, [name for name in names if name != text])
        if text == value:
            raise InputError(f"{given.name}: column {text!r} cannot be the text and its value at once.")
        return Detected(self.task, text, value, [f"{self.task}, as asked: {text!r} is the text, {value!r} its value"])


class TwoTextsAndValue(TextAndValue):
    """The named columns; else two columns of texts, and the value in a column called like a label or the only other."""

    def columns(self, given: Given) -> Detected:
        texts = two_texts(given, self.task, [column for column in given.columns if column.name != given.label])
        rest = [name for name in given.table.columns if name not in texts]
        value = given.label or the_value(given, rest)
        if len({*texts, value}) < 3:
            raise InputError(f"{given.name}: the two texts and their value must be three different columns.")
        reason = f"{self.task}, as asked: {texts[0]!r} and {texts[1]!r} are the texts, {value!r} their value"
        return Detected(self.task, texts[0], value, [reason], texts[1])
