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

from headway.data.formats.aligned import is_target_of
from headway.data.formats.tags import are_tags
from headway.data.open.columns import LABEL_CHARACTERS, TINY, Column, number
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
    """what to do, with what was found for {0} and so on; empty where training continues"""


def refuse(facts: DataFacts) -> None:
    """Raise InputError for data that would be trained for the wrong task."""
    for one in UNSUPPORTED:
        if one.instead and (found := one.find(facts)):
            instead = one.instead.format(*(shlex.quote(str(part)) for part in found))
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
    first = next((value for value in facts.source.values(label) if value.strip() not in ("", "[]", "{}")), "")
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
                f"label of the texts in {facts.text!r}. To learn it, add --label-column {shlex.quote(column.name)}; "
                f"{ONLY_TEXTS}."
            )


def _is_metadata(facts: DataFacts, column: Column) -> bool:
    """Whether numbers say which row it is or when it is from, and not what it means: ids, counts, times and years."""
    if NO_TARGET.search(column.name):
        return True
    values = [_number(value) for value in islice(facts.source.values(column.name), 10_000) if value.strip()]
    ascending, years = all(a < b for a, b in pairwise(values)), all(1800 <= value <= 2100 for value in values)
    return all(value == np.floor(value) for value in values) and (ascending or years or min(values) >= 1e8)


def _number(written: str) -> float:
    """The number that is written, also with a comma before its decimals."""
    return number(written.strip().replace(",", "." if written.count(",") == 1 else ""))


def preferences(facts: DataFacts) -> Sequence[str] | None:
    """The columns of a preferred and a rejected reply."""
    replies = [column.name for column in facts.columns if column.called("reply")]
    return replies if len(replies) > 1 else None


def asked_texts(facts: DataFacts) -> Sequence[str] | None:
    """The columns of texts, of a question about each, and of its answers."""
    names = {column.key: column.name for column in facts.columns}
    text = next((key for key in ("context", "passage", "paragraph") if key in names), None)
    answer = next((key for key in ("answers", "answer", "answertext") if key in names), None)
    return [names[text], names["question"], names[answer]] if text and answer and "question" in names else None


def unjudged_pairs(facts: DataFacts) -> Sequence[str] | None:
    """The columns of pairs of texts with nothing said of them, but for a source and its target."""
    first, second, _ = next(iter(facts.pairs), (None, None, False))
    if first is None or second is None or facts.label is not None or facts.likely_labels(first.name):
        return None
    return None if is_target_of(second.name.lower(), first.name.lower()) else (first.name, second.name)


def tagged_words(facts: DataFacts) -> tuple[str, str] | None:
    """A column of tags, one in each row, and the most frequent ones."""
    for column in facts.columns:
        if facts.text != column.name and column.few and column.counts and are_tags(column.counts):
            return column.name, ", ".join(tag for tag, _ in column.counts.most_common(4))
    return None


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
        asked_texts,
        "columns {0!r}, {1!r} and {2!r} are a text, a question about it and the answers",
        "this is answering questions from a text, for which Headway has no task yet",
        "--task text_to_text learns to write an answer from both texts: --text-column {1} --text-column {0} "
        "--second-column, with a column of plain answers.",
    ),
    Unsupported(
        lambda facts: facts.judged_pairs,
        "columns {0!r} and {1!r} are pairs of texts, {2!r} a label or score of each",
        "this is classification or scoring of pairs, for which Headway has no task yet",
        "--task embedding trains on pairs with a score in numbers, 0 to 1 for example; both texts can be joined in one "
        "column and classified; --task classification uses one of the texts (choose it with --text-column).",
    ),
    Unsupported(
        unjudged_pairs,
        "columns {0!r} and {1!r} are pairs of texts, without a label or a score",
        "what to learn of them is not clear",
        "--task embedding learns vectors in which the two of a pair are near, --task text_to_text writes {1} for {0}; "
        "to read one of them alone, name it with --text-column.",
    ),
    Unsupported(
        label_lists, HOLDS_LISTS, "each list is trained as a class of its own, so what two lists share is not learned"
    ),
)
