"""Data for tasks that Headway does not have: how each is recognised, and what to do about it.

``UNSUPPORTED`` is the whole list.  Where training on the data would lose what they mean, they are refused, unless
``--task`` is given; elsewhere one line says what is lost.  When a task is added, remove it from this list.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np

from headway.data.formats.tags import are_tags
from headway.data.open.columns import LABEL_CHARACTERS, MOST_LABELS, TINY, Column, number
from headway.data.records.rows import shorten
from headway.tasks.data_facts import DataFacts
from headway.tasks.label_sets import HOLDS_LISTS, label_lists

ONLY_TEXTS = "--task language_modeling reads only the texts"
FEW_NUMBERS = 20
"""The most distinct numbers that can be classes; more are a quantity."""
NO_TARGET = re.compile(
    r"(^|[\W_])(id|idx|index|uid|key|(up|down)?votes|likes|views|shares|retweets|replies|length|count|words|tokens)$"
    "|[a-z](Id|ID)$|^(row|doc|user|tweet)id$"
)
"""Names of columns of numbers that identify a row, or that count something of its text."""
STARS = re.compile("[★☆⭐✩✭\ufe0f]+|\\*{1,5}|[1-5](?:[.,]5)? ?stars?|(?:10|[0-9])(?:[.,][05])? ?(?:/|out of) ?(?:5|10)")
"""Ratings that are written with stars or out of a maximum."""


@dataclass(frozen=True)
class Unsupported:
    """One kind of data for which there is no task."""

    find: Callable[[DataFacts], Sequence[object] | None]
    """a column and the other values that ``evidence`` names; None where data are of another kind"""
    evidence: str
    """what shows it, with what was found for {0}, {1} and so on"""
    what: str
    """what the data are or, where training continues, what is lost"""
    instead: str = ""
    """what to do, with the column for {0}; empty where training continues"""


def refuse(facts: DataFacts) -> None:
    """Raise InputError for data that would be trained for the wrong task."""
    for one in UNSUPPORTED:
        if one.instead and (found := one.find(facts)):
            instead = one.instead.format(shlex.quote(str(found[0])))
            raise facts.error(f"{one.evidence.format(*found)}: {one.what}. {instead}")


def losses(facts: DataFacts) -> list[str]:
    """A line for each thing that is lost when the labels of a column are trained as classes."""
    found = ((one, one.find(facts)) for one in UNSUPPORTED if not one.instead)
    return [f"{one.evidence.format(*parts)}: {one.what}" for one, parts in found if parts]


def check_accepted(facts: DataFacts) -> None:
    """Raise InputError where annotators rejected rows, as Prodigy records it."""
    for column in facts.columns:
        if column.key == "answer" and {"accept"} < set(column.counts or ()) <= {"accept", "reject", "ignore"}:
            raise facts.error(
                f"in column {column.name!r} annotators rejected or ignored rows; keep those with 'accept', and remove "
                "the column."
            )


def check_plain_labels(facts: DataFacts, label: str) -> None:
    """Raise InputError for a label that is an object or a list of objects, whose parts are not read."""
    column = facts.column(label)
    first = next((value for value in facts.values(label) if value.strip() not in ("", "[]", "{}")), "")
    if column is not None and column.nested and "{" in first:
        raise facts.error(
            f"column {label!r} holds annotations ({shorten(first)}). Spans are read from a column of lists such as "
            '[{"start": 0, "end": 4, "label": "PER"}]; write other labels into a column as plain words.'
        )


def refuse_targets(facts: DataFacts) -> None:
    """Raise InputError for a table of which only the texts would be read, where another column could be the target."""
    for column in facts.columns:
        if column.name == facts.text or column.distinct < 2 or (column.numeric and _is_metadata(facts, column)):
            continue
        if column.called("label", "annotation"):
            check_plain_labels(facts, column.name)
        called = column.called("label", "list")
        if called or column.numeric or column.counts is not None:
            refuse(replace(facts, label=column.name))
        repeats = column.n_rows < TINY and column.distinct < column.n_rows
        if column.numeric or ((called or repeats) and column.mean_length <= LABEL_CHARACTERS):
            raise facts.error(
                f"column {column.name!r} ({column.distinct:,} distinct values in {column.n_rows:,} rows) could be the "
                f"label of the texts in {facts.text!r}. To classify, add --label-column {shlex.quote(column.name)}; "
                f"{ONLY_TEXTS}."
            )


def _is_metadata(facts: DataFacts, column: Column) -> bool:
    """Whether numbers say which row it is or when it is from, and not what it means: ids, counts, times and years."""
    if NO_TARGET.search(column.name):
        return True
    values = [_number(value) for value in islice(facts.values(column.name), 10_000) if value.strip()]
    ascending, years = all(a < b for a, b in pairwise(values)), all(1800 <= value <= 2100 for value in values)
    return all(value == np.floor(value) for value in values) and (ascending or years or min(values) >= 1e8)


def _number(written: str) -> float:
    """The number that is written, also with a comma before its decimals."""
    return number(written.strip().replace(",", "." if written.count(",") == 1 else ""))


def preferences(facts: DataFacts) -> Sequence[str] | None:
    """The columns of a preferred and a rejected reply."""
    replies = [column.name for column in facts.columns if column.called("reply")]
    return replies if len(replies) > 1 else None


def tagged_words(facts: DataFacts) -> tuple[str, str] | None:
    """A column of tags, one in each row, and the most frequent ones."""
    for column in facts.columns:
        if facts.text != column.name and column.few and column.counts and are_tags(column.counts):
            return column.name, ", ".join(tag for tag, _ in column.counts.most_common(4))
    return None


def quantity(facts: DataFacts) -> tuple[str, int, int] | None:
    """A column of many distinct numbers in place of the label; how many, and in how many rows."""
    if facts.label is None and any(
        column.label_like and (column.called("label") or not column.numeric) for column in facts.columns
    ):
        return None
    for column in facts.columns:
        if column.name == facts.text or not column.numeric or column.distinct <= FEW_NUMBERS:
            continue
        called = column.called("sure label", "quantity") if facts.label is None else column.name == facts.label
        if called and _is_quantity(column, np.fromiter(map(_number, facts.distinct(column)), float)):
            return column.name, column.distinct, column.n_rows
    return None


def _is_quantity(column: Column, values: np.ndarray) -> bool:
    """Whether numbers measure something.  Whole ones may count classes: those of a label do where they repeat."""
    if bool((values != np.floor(values)).any()) or (column.called("quantity") and column.key not in ("target", "y")):
        return True
    counted = values.min() in (0, 1) and column.distinct >= 0.8 * (values.max() + 1)
    return not counted and (column.distinct > MOST_LABELS or column.n_rows < 5 * column.distinct)


def stars(facts: DataFacts) -> tuple[str, str] | None:
    """Ratings that are written with stars or out of a maximum, as labels."""
    column, written = _few_labels(facts)
    if column is None or not all(STARS.fullmatch(value.casefold()) for value in written):
        return None
    return column.name, ", ".join(written[:11])


def ratings(facts: DataFacts) -> tuple[str, float, float] | None:
    """A few consecutive numbers as labels, from the least to the most: ordered classes.

    They are all whole numbers, or all tenths, halves and so on, of a range, a few missing.
    """
    column, written = _few_labels(facts)
    if column is None or not column.numeric:
        return None
    values = sorted(map(_number, written))
    steps = {round(b - a, 6) for a, b in pairwise(values)}
    in_a_row = min(steps) in (1, 0.5, 0.25, 0.1) and max(steps) <= 3 * min(steps)
    called = column.called("rating") or values == [1, 2, 3, 4, 5]
    return (column.name, values[0], values[-1]) if called and in_a_row else None


def _few_labels(facts: DataFacts) -> tuple[Column | None, list[str]]:
    """The column of labels where it has a few values, and these."""
    column = facts.column(facts.label)
    if column is None or not 3 <= column.distinct <= FEW_NUMBERS:
        return None, []
    return column, sorted(set(facts.distinct(column)))


UNORDERED = "trained as unordered classes, so mistaking 5 for 1 counts no more than mistaking 5 for 4"
UNSUPPORTED = (
    Unsupported(
        preferences,
        "columns {0!r} and {1!r} are a preferred and a rejected reply",
        "this is learning from preferences, for which Headway has no task yet",
        "To train on the preferred replies alone, rename their column to completion and remove the other one.",
    ),
    Unsupported(
        tagged_words,
        "column {0!r} holds tags of single tokens ({1})",
        "these are tagged tokens, one in each row of a table, without sentence boundaries",
        "Write a token and its tag on each line of a .conll file, and a blank line "
        "after each sentence. --task classification classifies the words one by one.",
    ),
    Unsupported(
        lambda facts: facts.judged_pairs,
        "columns {0!r} and {1!r} are pairs of texts, {2!r} a label or score of each",
        "this is classification or scoring of pairs, for which Headway has no task yet",
        "--task embedding trains on pairs with a score in numbers, 0 to 1 for example; both texts can be joined in one "
        "column and classified; --task classification uses one of the texts (choose it with --text-column).",
    ),
    Unsupported(
        quantity,
        "column {0!r} holds {1:,} distinct numbers in {2:,} rows",
        "this is a quantity to predict (regression), for which Headway has no task yet",
        "To classify, add a column of ranges such as low, medium and high. --task classification --label-column {0} "
        f"takes numbers that repeat as classes, {ONLY_TEXTS}.",
    ),
    Unsupported(stars, "the labels in column {0!r} are ratings ({1})", UNORDERED),
    Unsupported(ratings, "the labels in column {0!r} look like ratings ({1:g} to {2:g})", UNORDERED),
    Unsupported(
        label_lists, HOLDS_LISTS, "each list is trained as a class of its own, so what two lists share is not learned"
    ),
)
