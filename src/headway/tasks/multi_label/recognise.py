"""A text and a list of labels in every row of a table, or a column of 0 and 1 for each label."""

import re
from dataclasses import replace

from headway.data.open.column_names import LABEL_NAMES
from headway.data.open.columns import Column
from headway.data.open.detected import TABLE, Detected
from headway.errors import InputError
from headway.tasks.columns import find_label, find_text, likely_labels, likely_texts, no_labels
from headway.tasks.given import Given
from headway.tasks.label_lists import FLAGS, LISTED, label_lists
from headway.tasks.recognise import BY_VALUES, Recogniser
from headway.tasks.unsupported import check_plain_labels, judged_pair

NUMBERS = re.compile(r"[\[\]\s\d.,;|eE+-]*")


class LabelSets(Recogniser):
    """A column of texts, and the labels of each: a list in one column, or one column of 0 and 1 for each label."""

    reads = frozenset({TABLE})
    several_labels = True

    def fit(self, given: Given) -> int | None:
        fits = given.shape == TABLE and given.second is None and (len(given.labels) > 1 or given.once(found_labels))
        return BY_VALUES if fits else None

    def check(self, given: Given) -> None:
        if given.shape not in self.reads:
            raise no_labels(given)

    def columns(self, given: Given) -> Detected:
        reasons: list[str] = []
        text = find_text(given, reasons)
        labels = given.labels or given.once(found_labels) or (find_label(given, text, reasons),)
        if labels[0] is None:
            raise InputError(f"{given.name}: no column looks like lists of labels. Name one with --label-column.")
        task = f"{self.task}{', as asked' if given.asked else ''} (--label-column to change)"
        if len(labels) > 1:
            reason = f"columns {', '.join(map(repr, labels))} say of each label whether a text has it: {task}"
            return Detected(self.task, text, None, [*reasons, reason], label_columns=labels)
        check_plain_labels(given, labels[0])
        evidence = label_lists(replace(given, text=text, label=labels[0]))
        reason = evidence[1] if evidence else f"column {labels[0]!r} holds the labels"
        return Detected(self.task, text, labels[0], [*reasons, f"{reason}: {task}"])


def found_labels(given: Given) -> tuple[str, ...]:
    """The column that holds lists of labels, or the columns of 0 and 1; nothing where labels are of another kind."""
    texts = [given.text] if given.text else judged_pair(given) or [column.name for column in likely_texts(given)]
    if not texts:
        return ()
    named = [column for column in given.columns if column.name == given.label]
    likely = named if given.label else likely_labels(given, texts[0])
    if len(likely) > 1:
        return tuple(column.name for column in likely) if all(map(_holds_flags, likely)) else ()
    among = likely or [one for one in given.columns if one.name != texts[0] and _may_be_lists(one)]
    lists = (one.name for one in among if label_lists(replace(given, text=texts[0], label=one.name)))
    return tuple(lists)[:1]


def _may_be_lists(column: Column) -> bool:
    """Whether a column is called so, or holds few values and not numbers alone: vectors, places."""
    called = column.key in LISTED | LABEL_NAMES
    return column.distinct > 1 and (called or not all(map(NUMBERS.fullmatch, column.counts or "0")))


def _holds_flags(column: Column) -> bool:
    return column.counts is not None and {value.casefold() for value in column.counts} <= set(FLAGS)


RECOGNISER = LabelSets("multi_label")
