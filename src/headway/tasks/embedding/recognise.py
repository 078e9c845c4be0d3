"""Pairs of texts, with a score each or without."""

from math import isnan

from headway.data.open.columns import TEXT, Column, Detected, number
from headway.data.records.label_typing import MISSING
from headway.data.records.rows import shorten
from headway.errors import InputError
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import Recogniser

NO_NUMBERS = MISSING | {"na", "inf", "-inf"}
"""Values in place of a missing number, in lower case."""


class ScoredPairs(Recogniser):
    """Two columns of texts, and the column of scores if there is one; only where the task is named."""

    def columns(self, facts: DataFacts) -> Detected:
        """The columns of pairs.

        Raises InputError, also where another column could hold scores that are not read: pairs that do not belong
        together would be trained as though they did.  Naming both columns of texts says that they all do.
        """
        if facts.shape == TEXT:
            raise facts.no_table(f"{facts.asked} needs a table with two columns of texts")
        score, reasons, named = facts.label, list[str](), (facts.text, facts.second)
        scored = [c.name for c in facts.columns if score is None and c.name not in named and _holds_scores(facts, c)]
        if len(scored) == 1:
            score = scored[0]
            reasons.append(f"column {score!r} is taken as the score of each pair (--label-column to change)")
        among = _without_few(facts.columns, *named) if score is None else facts.columns
        first, second = facts.two_texts(self.task, among, score)
        if first == second or score in (first, second):
            raise facts.error("the two texts and the score must be three different columns.")
        reasons.append(
            f"columns {first!r} and {second!r} hold pairs of texts (--text-column, --second-column to change)"
        )
        rest = [column for column in facts.columns if column.name not in (first, second)]
        others = [  # which could be meant to say how well the texts of each pair go together
            column
            for column in rest
            if score is None and (column.label_like or (column.distinct > 0 and column.called("label", "score")))
        ]
        if others and None in named:
            raise _unread(facts, others)
        reasons += [f"column {column.name!r} is not read: every pair counts as a match" for column in others]
        reasons.append(f"task: {self.task}, as asked: {'pairs with scores' if score else 'matching pairs'}")
        return Detected(self.task, first, score, reasons, second)


def _holds_scores(facts: DataFacts, column: Column) -> bool:
    """Whether a column is called like a score and holds numbers, in most rows at least; the others are refused later.

    What stands for a number that is not there, such as nan, counts as one.
    """
    if column.numeric or not column.called("score"):
        return column.numeric and column.called("score")
    written = [value.strip() for value in facts.source.values(column.name) if value.strip()]
    numbers = [value for value in written if value.casefold() in NO_NUMBERS or not isnan(number(value))]
    return 2 * len(numbers) > len(written)


def _without_few(columns: list[Column], first: str | None, second: str | None) -> list[Column]:
    """The columns without those of a few values, if the others are as many texts as are wanted."""
    rest = [column for column in columns if not column.few]
    texts = [column for column in rest if column.text_like and column.name not in (first, second)]
    return rest if len(texts) == [first, second].count(None) else columns


def _unread(facts: DataFacts, columns: list[Column]) -> InputError:
    """The error for columns that could hold scores and would not be read."""
    alone = "use --text-column and --second-column to count every pair as a match"
    for column in columns:
        for row, value in enumerate(map(str.strip, facts.source.values(column.name))):
            if value and isnan(number(value)):
                return facts.error(
                    f"column {column.name!r} looks like the score of each pair, but holds {shorten(value)} "
                    f"({facts.source.place(row)}). Scores must be numbers (for example 0 and 1); {alone}."
                )
    names = " or ".join(repr(column.name) for column in columns)
    return facts.error(f"column {names} could be the score of each pair: name it with --label-column, or {alone}.")


RECOGNISER = ScoredPairs("embedding")
