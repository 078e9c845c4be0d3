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
from headway.data.open.column_names import LABEL_NAMES, SCORE_NAMES, SURE_LABEL_NAMES, TEXT_NAMES
from headway.data.open.columns import LABEL_CHARACTERS, MOST_LABELS, TINY, Column, number
from headway.data.records.rows import shorten
from headway.errors import InputError
from headway.tasks.given import Given
from headway.tasks.label_lists import LISTED, label_lists

ONLY_TEXTS = "--task language_modeling reads only the texts"
FEW_NUMBERS = 20
"""The most distinct numbers that can be classes; more are a quantity."""
NO_TARGET = re.compile(
    r"(^|[\W_])(id|idx|index|uid|key|(up|down)?votes|likes|views|shares|retweets|replies|length|count|words|tokens)$"
    "|[a-z](Id|ID)$|^(row|doc|user|tweet)id$"
)
"""Names of columns of numbers that identify a row, or that count something of its text."""
SHORT = 8
"""Characters: the texts of a pair are longer on average."""


@dataclass(frozen=True)
class Unsupported:
    """One kind of data for which there is no task."""

    evidence: Callable[[Given], tuple[str, str] | None]
    """a column, and the evidence in words; None where there is none"""
    what: str
    """what the data are or, where training continues, what is lost"""
    instead: str = ""
    """what to do, with the column for COLUMN; empty where training continues"""


def refuse(given: Given) -> None:
    """Raise InputError for data that would be trained for the wrong task."""
    for one in UNSUPPORTED:
        if one.instead and (evidence := one.evidence(given)):
            column, words = evidence
            instead = one.instead.replace("COLUMN", shlex.quote(column))
            raise InputError(f"{given.name}: {words}: {one.what}. {instead}")


def losses(given: Given) -> list[str]:
    """A line for each thing that is lost when the labels of a column are trained as classes."""
    found = ((one, one.evidence(given)) for one in UNSUPPORTED if not one.instead)
    return [f"{evidence[1]}: {one.what}" for one, evidence in found if evidence]


def check_accepted(given: Given) -> None:
    """Raise InputError where annotators rejected rows, as Prodigy records it."""
    for column in given.columns:
        answers = set(column.counts or ())
        if (
            column.key == "answer"
            and "accept" in answers
            and answers <= {"accept", "reject", "ignore", ""} != {"accept"}
        ):
            raise InputError(
                f"{given.name}: in column {column.name!r} annotators rejected or ignored rows; keep those with "
                "'accept', and remove the column."
            )


def check_plain_labels(given: Given, label: str) -> None:
    """Raise InputError for a label that is an object or a list of objects, whose parts are not read."""
    column = given.column(label)
    first = next((value for value in given.values(label) if value.strip() not in ("", "[]", "{}")), "")
    if column is not None and column.nested and "{" in first:
        raise InputError(
            f"{given.name}: column {label!r} holds annotations ({shorten(first)}). Spans are read from a column of "
            'lists such as [{"start": 0, "end": 4, "label": "PER"}]; write other labels into a column as plain words.'
        )


def refuse_targets(given: Given) -> None:
    """Raise InputError for a table of which only the texts would be read, where another column could be the target."""
    for column in given.columns:
        if column.name == given.text or column.distinct < 2 or (column.numeric and _is_metadata(given, column)):
            continue
        if column.key in ANNOTATIONS:
            check_plain_labels(given, column.name)
        called = column.key in LABEL_NAMES | LISTED
        if called or column.numeric or column.counts is not None:
            refuse(replace(given, label=column.name))
        repeats = column.n_rows < TINY and column.distinct < column.n_rows
        if column.numeric or ((called or repeats) and column.mean_length <= LABEL_CHARACTERS):
            raise InputError(
                f"{given.name}: column {column.name!r} ({column.distinct:,} distinct values in {column.n_rows:,} rows) "
                f"could be the label of the texts in {given.text!r}. To classify, add --label-column "
                f"{shlex.quote(column.name)}; {ONLY_TEXTS}."
            )


def _is_metadata(given: Given, column: Column) -> bool:
    """Whether numbers say which row it is or when it is from, and not what it means: ids, counts, times and years."""
    if NO_TARGET.search(column.name):
        return True
    values = [number(_decimal(value)) for value in islice(given.values(column.name), 10_000) if value.strip()]
    ascending, years = all(a < b for a, b in pairwise(values)), all(1800 <= value <= 2100 for value in values)
    return all(value == np.floor(value) for value in values) and (ascending or years or min(values) >= 1e8)


def tagged_words(given: Given) -> tuple[str, str] | None:
    """Rows of a word and its tag each, without sentence boundaries."""
    for column in given.columns:
        if given.text != column.name and column.few and column.counts and are_tags(column.counts):
            shown = ", ".join(tag for tag, _ in column.counts.most_common(4))
            return column.name, f"column {column.name!r} holds tags of single tokens ({shown})"
    return None


def preferences(given: Given) -> tuple[str, str] | None:
    """A preferred and a rejected reply in each row."""
    replies = [column.name for column in given.columns if column.key in ("chosen", "rejected")]
    words = "columns {0!r} and {1!r} are a preferred and a rejected reply"
    return (replies[0], words.format(*replies)) if len(replies) > 1 else None


PAIRS = {
    "premise": ("hypothesis",),
    **{"claim": ("evidence",), "sentence": ("paraphrase",), "context": ("response", "hypothesis")},
    "prompt": ("completion", "response"),
    "query": ("passage", "document", "doc", "text", "title", "product"),
    "question": ("answer", "sentence", "passage", "paragraph", "context", "response"),
}
"""Names of the two texts of a pair that has a label or score."""
JUDGED = (
    SURE_LABEL_NAMES
    | SCORE_NAMES
    | frozenset(
        [
            *(
                "goldlabel",
                "entailment",
                "entailmentjudgment",
                "judgment",
                "judgement",
                "relation",
                "stance",
                "quality",
            ),
            *("duplicate", "paraphrase", "correct", "relevance", "relevant", "answerable", "relatednessscore"),
            *("isduplicate", "isparaphrase", "iscorrect", "isrelevant", "isanswer", "similar", "issimilar"),
        ]
    )
)
"""Names of columns that label or score pairs."""


def judged_pairs(given: Given) -> tuple[str, str] | None:
    """Two columns of texts that are called like the two of a pair, and a label or a score of the pair."""
    first, second, judged = _judged(given) or ("", "", "")
    words = f"columns {first!r} and {second!r} are pairs of texts, {judged!r} a label or score of each"
    return (judged, words) if judged else None


def judged_pair(given: Given) -> tuple[str, str] | None:
    """The two columns that ``judged_pairs`` finds."""
    found = _judged(given)
    return found and found[:2]


def _judged(given: Given) -> tuple[str, str, str] | None:
    """The names of both columns, and of the one that judges them."""
    if given.text is not None:
        return None
    texts = {column.key: column for column in given.columns if column.text_like and column.mean_length >= SHORT}
    longest_first = sorted(texts.items(), key=lambda item: item[1].mean_length, reverse=True)
    for one, other, sure in _called_like_pairs(texts):
        pair = texts[one], texts[other]
        if _is_other_text(longest_first, one, other, max(column.mean_length for column in pair)):
            continue
        judged = [column for column in given.columns if column not in pair and _judges(column, given, sure)]
        if judged:
            return pair[0].name, pair[1].name, judged[0].name
    return None


def _called_like_pairs(texts: dict[str, Column]) -> list[tuple[str, str, bool]]:
    """Two keys of columns, and whether the names say enough by themselves: sentence1 and sentence2."""
    found = []
    for key in texts:
        for one, two in (("1", "2"), ("a", "b")):
            if len(key) > 1 and key.endswith(one) and key[:-1] + two in texts:
                found.append((key, key[:-1] + two, True))
        if key.startswith("first") and (second := f"second{key.removeprefix('first')}") in texts:
            found.append((key, second, True))
        found += [(key, other, key == "premise") for other in PAIRS.get(key, ()) if other in texts]
    return found


def _is_other_text(texts: Sequence[tuple[str, Column]], one: str, other: str, most: float) -> bool:
    """Whether the text of each row is in another column than these two: longer, or with a usual name."""
    rest = (column for key, column in texts if not key.startswith((one, other)) and not column.few)
    return any(column.mean_length > most or (column.key in TEXT_NAMES and column.key != "title") for column in rest)


def _judges(column: Column, given: Given, sure: bool) -> bool:
    """Whether a column judges pairs: it was named, or is called so; where the pairs are sure, any label does."""
    if column.name == given.label:
        return True
    if not (column.few or column.numeric):
        return False
    return column.key in JUDGED or (sure and (column.key in LABEL_NAMES or column.key.startswith("is")))


QUANTITIES = frozenset(
    [
        *("target", "y", "score", "scores", "rating", "ratings", "stars", "grade", "grades", "points", "price"),
        *("value", "salary", "targetscore", "averagerating", "avgrating", "meanscore"),
    ]
)
"""Names of columns of numbers to predict, other than labels."""


def quantity(given: Given) -> tuple[str, str] | None:
    """A column of many distinct numbers where the label is expected."""
    if given.label is None and any(column.label_like and _may_be_label(column) for column in given.columns):
        return None
    named = SURE_LABEL_NAMES | QUANTITIES
    for column in given.columns:
        if column.name == given.text or not column.numeric or column.distinct <= FEW_NUMBERS:
            continue
        if column.name != given.label and (given.label is not None or column.key not in named):
            continue
        if _is_quantity(column, np.fromiter((number(_decimal(value)) for value in given.distinct(column)), float)):
            many = f"{column.distinct:,} distinct numbers in {column.n_rows:,} rows"
            return column.name, f"column {column.name!r} holds {many}"
    return None


def _may_be_label(column: Column) -> bool:
    return column.key in LABEL_NAMES or not column.numeric


def _decimal(value: str) -> str:
    """A number with a comma before its decimals as Python writes it."""
    return value.strip().replace(",", ".") if value.count(",") == 1 else value.strip().replace(",", "")


def _is_quantity(column: Column, values: np.ndarray) -> bool:
    """Whether numbers measure something.  Whole ones may count classes: those of a label do where they repeat."""
    if bool((values != np.floor(values)).any()):
        return True
    if column.key in QUANTITIES - {"target", "y"}:
        return True
    counted = values.min() in (0, 1) and column.distinct >= 0.8 * (values.max() + 1)
    return not counted and (column.distinct > MOST_LABELS or column.n_rows < 5 * column.distinct)


RATED = frozenset(
    [
        *("rating", "ratings", "star", "stars", "starrating", "score", "scores", "grade", "points", "overall"),
        *("overallrating", "reviewrating", "reviewscore", "severity", "satisfaction", "csat", "nps", "likert"),
        *("priority", "level", "quality", "rate"),
    ]
)
"""Names of columns of ratings."""
STARS = re.compile("[★☆⭐✩✭\ufe0f]+|\\*{1,5}|[1-5](?:[.,]5)? ?stars?|(?:10|[0-9])(?:[.,][05])? ?(?:/|out of) ?(?:5|10)")
"""Ratings that are written with stars or out of a maximum."""


def ratings(given: Given) -> tuple[str, str] | None:
    """A few consecutive numbers, or stars: ordered classes."""
    column = given.column(given.label)
    if column is None or not 3 <= column.distinct <= FEW_NUMBERS:
        return None
    written = sorted(set(given.distinct(column)))
    if all(STARS.fullmatch(value.casefold()) for value in written):
        return column.name, f"the labels in column {column.name!r} are ratings ({', '.join(written[:11])})"
    values = sorted(number(_decimal(value)) for value in written) if column.numeric else []
    if not values or not (column.key in RATED or values == [1, 2, 3, 4, 5]) or not _in_a_row(values):
        return None
    return column.name, f"the labels in column {column.name!r} look like ratings ({values[0]:g} to {values[-1]:g})"


def _in_a_row(values: Sequence[float]) -> bool:
    """Whether these are all whole numbers, or all tenths, halves and so on, of a range, a few missing."""
    steps = {round(b - a, 6) for a, b in pairwise(values)}
    least = min(steps)
    return least in (1, 0.5, 0.25, 0.1) and max(steps) <= 3 * least


ANNOTATIONS = LABEL_NAMES | {"entities", "spans", "annotations", "relations", "ner", "completions", "result"}
"""Names of columns that hold what annotators marked."""
UNSUPPORTED = (
    Unsupported(
        preferences,
        "this is learning from preferences, for which Headway has no task yet",
        "To train on the preferred replies alone, rename their column to completion and remove the other one.",
    ),
    Unsupported(
        tagged_words,
        "these are tagged tokens, one in each row of a table, without sentence boundaries",
        "Write a token and its tag on each line of a .conll file, and a blank line "
        "after each sentence. --task classification classifies the words one by one.",
    ),
    Unsupported(
        judged_pairs,
        "this is classification or scoring of pairs, for which Headway has no task yet",
        "--task embedding trains on pairs with a score in numbers, 0 to 1 for example; both texts can be joined in one "
        "column and classified; --task classification uses one of the texts (choose it with --text-column).",
    ),
    Unsupported(
        quantity,
        "this is a quantity to predict (regression), for which Headway has no task yet",
        "To classify, add a column of ranges such as low, medium and high. --task classification --label-column COLUMN "
        f"takes numbers that repeat as classes, {ONLY_TEXTS}.",
    ),
    Unsupported(ratings, "trained as unordered classes, so mistaking 5 for 1 counts no more than mistaking 5 for 4"),
    Unsupported(
        label_lists,
        "each list is trained as a class of its own, so what two lists share is not learned",
    ),
)
