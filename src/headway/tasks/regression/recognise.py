"""A text and a number of many values in every row of a table."""

import numpy as np

from headway.data.open.columns import MOST, MOST_LABELS, Column
from headway.data.records.numbers import found_numbers
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import TextAndValue
from headway.tasks.unsupported import FEW_NUMBERS


class TextAndNumber(TextAndValue):
    """A column of texts, and one of numbers: the named ones, or those that are called like them and are no classes."""

    roles = "{0!r} is the text, {1!r} the number to predict"

    def why(self, facts: DataFacts, column: Column) -> str:
        return (
            f"column {column.name!r} holds {column.distinct:,} distinct numbers in {column.n_rows:,} rows, which are a "
            f"quantity: {self.task} (--task classification takes numbers that repeat as classes)"
        )

    def find(self, facts: DataFacts) -> Column | None:
        """A column of many distinct numbers in place of the label."""
        classes = (one for one in facts.columns if one.label_like and one.name != facts.text and not one.called("text"))
        if facts.label is None and any(one.called("label") or one.share_numeric < MOST for one in classes):
            return None
        for column in facts.columns:
            if column.name == facts.text or column.share_numeric < MOST or column.distinct <= FEW_NUMBERS:
                continue
            called = column.called("sure label", "quantity") if facts.label is None else column.name == facts.label
            if called and _measures(column, found_numbers(list(facts.distinct(column)))):
                return column
        return None


def _measures(column: Column, values: np.ndarray) -> bool:
    """Whether numbers measure something.  Whole ones may count classes: those of a label do where they repeat."""
    if not len(values):
        return False
    if bool((values != np.floor(values)).any()) or (column.called("quantity") and column.key not in ("target", "y")):
        return True
    counted = values.min() in (0, 1) and column.distinct >= 0.8 * (values.max() + 1)
    return not counted and (column.distinct > MOST_LABELS or column.n_rows < 5 * column.distinct)


RECOGNISER = TextAndNumber("regression")
