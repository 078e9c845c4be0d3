"""What counts when the columns of a table are judged."""

import math
import re
import statistics
from dataclasses import dataclass

from headway.data.table import Table

MOST_LABELS = 100
"""A column with more distinct values is a label only when it is named."""

TINY = 10
"""In a table of fewer rows nothing has to repeat: a column that is called like a label may be one."""

LABEL_CHARACTERS = 40
"""A label is short: its average length in characters is at most this."""


@dataclass(frozen=True)
class Column:
    """What counts when a column is judged."""

    name: str
    distinct: int
    mean_length: float
    numeric: bool
    n_rows: int

    @property
    def key(self) -> str:
        return re.sub(r"[\W_]+", "", self.name.casefold())

    @property
    def few(self) -> bool:
        """Few distinct, short values that repeat, if only one."""
        few = 1 <= self.distinct <= min(MOST_LABELS, max(2, self.n_rows // 2))
        counted = self.numeric and self.distinct > 20  # ids, years, amounts
        return few and not counted and self.mean_length <= LABEL_CHARACTERS

    @property
    def few_if_called_so(self) -> bool:
        """``few`` for a column that is called like a label; in a tiny table, short."""
        return self.few or (self.n_rows < TINY and not self.numeric and 0 < self.mean_length <= LABEL_CHARACTERS)

    @property
    def label_like(self) -> bool:
        """Few values, and more than one."""
        return self.few and self.distinct > 1

    @property
    def text_like(self) -> bool:
        """Words, and more than one text where there is more than one row."""
        return not self.numeric and self.mean_length > 0 and self.distinct > min(1, self.n_rows - 1)


def judge(table: Table, name: str) -> Column:
    values = [value.strip() for value in table.column(name)]
    filled = [value for value in values if value]
    numeric = bool(filled) and all(re.fullmatch(r"[-+]?[\d.,]*\d([eE][-+]?\d+)?", value) for value in filled)
    mean = statistics.fmean(map(len, filled)) if filled else 0.0
    return Column(name, len(set(filled)), mean, numeric, len(values))


def number(written: str) -> float:
    """The number that is written, NaN where there is none or an infinite one."""
    try:
        value = float(written)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
