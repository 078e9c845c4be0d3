"""A text and a level on a scale in every row of a table."""

import math
import re
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from headway.data.open.columns import NEARLY_ALL, Column
from headway.data.records.label_typing import Merging
from headway.data.records.numbers import numbers
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import TextAndValue
from headway.tasks.unsupported import FEW_NUMBERS

STARS = re.compile("[★⭐✩✭☆\ufe0f]+|[★⭐\ufe0f]+½☆*|\\*{1,5}")
"""Levels that are written as so many stars; ☆ is one that is not given, so that ☆☆☆ alone is unclear."""
WORD = "(?:stars?|sterne?|étoiles?|estrellas?|stell[ae])"
IN_WORDS = re.compile(
    rf"([1-5](?:[.,]5)?) ?{WORD}|(10|[0-9](?:[.,][05])?) ?{WORD}? ?(?:/|out of|of|von|sur) ?(5|10) ?{WORD}?"
)
"""Levels that are written with the word or out of a maximum."""
POINTED = re.compile(r"\d{1,2},\d{1,2}")
"""A level with a decimal comma."""
STEPS = (1, 0.5, 0.25, 0.1)


@lru_cache(1000)
def level(written: str) -> float:
    """The level that a cell means; NaN where it means none."""
    cell = written.strip().casefold()
    if STARS.fullmatch(cell):
        shown = cell.replace("\ufe0f", "")
        if "½" in shown:
            return shown.index("½") + 0.5
        return float(len(shown.replace("☆", ""))) if shown.strip("☆") else math.nan
    if found := IN_WORDS.fullmatch(cell):
        cell = (found[1] or found[2]).replace(",", ".")
    return float(numbers([cell if POINTED.fullmatch(cell) is None else cell.replace(",", ".")])[0])


class TextAndRating(TextAndValue):
    """A column of texts, and a column of a few levels in a row: called like ratings, or exactly 1 to 5, or stars."""

    roles = "{0!r} is the text, {1!r} its rating"

    def find(self, facts: DataFacts) -> Column | None:
        return rated(facts)

    def why(self, facts: DataFacts, column: Column) -> str:
        levels = levels_in({cell: level(cell) for cell in facts.distinct(column)}).values()
        return (
            f"column {column.name!r} holds levels from {min(levels):g} to {max(levels):g}, whose order counts: "
            f"{self.task} (--task classification for classes without order, --task regression for any number)"
        )


def rated(facts: DataFacts) -> Column | None:
    """The column of ratings in place of the label."""
    if facts.label is None:
        text = facts.possible_text
        likely = [] if text is None else facts.likely_labels(text)
        if len(likely) != 1:
            return None
        facts = replace(facts, text=text, label=likely[0].name)
    column = facts.column(facts.label)
    if column is None or not 3 <= column.distinct <= FEW_NUMBERS:
        return None
    if column.counts is None:
        return None
    is_missing = Merging().is_missing
    levels = {cell: level(cell) for cell in column.counts if not is_missing(cell)}
    good, count = (sum(column.counts[cell] for cell in part) for part in (levels_in(levels), levels))
    if good < NEARLY_ALL * count:  # what is none beside them is a mistake, which reading the rows names
        return None
    values = sorted({*levels_in(levels).values()})
    if len(values) < 3:
        return None
    steps = {round(b - a, 6) for a, b in pairwise(values)}
    in_a_row = min(steps) in STEPS and max(steps) <= 3 * min(steps)
    called = column.called("rating") or values == [1, 2, 3, 4, 5]
    return column if (called and in_a_row) or not column.mostly_numeric else None


def levels_in(found: dict[str, float]) -> dict[str, float]:
    """Those of the cells that mean a level."""
    return {cell: value for cell, value in found.items() if not math.isnan(value)}


RECOGNISER = TextAndRating("ratings")
