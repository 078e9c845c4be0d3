"""The kind of data that files hold, and facts about the columns of a table, by which their roles are detected."""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headway.data.records.label_typing import Merging
from headway.data.records.rows import Native

COLUMNS = ("text_column", "label_column", "second_column")
"""The options that name columns."""
TEXT, TABLE, ALIGNED, CONVERSATIONS, IMAGES = "text", "table", "aligned lines", "conversations", "images"
"""Running text (of a table with one column too), rows with several columns, two files with aligned lines,
lists of messages, images with a class each."""
WITHOUT_COLUMNS = (ALIGNED, CONVERSATIONS, IMAGES)
"""Data whose parts are known, so that no column can be named."""


@dataclass(frozen=True)
class Detected:
    """What was detected; `reasons` are messages, each with the option that would change it."""

    task: str
    text_column: str | None
    label_column: str | None
    reasons: list[str]
    second_column: str | None = None
    """The other text of each pair: the match of the first (embedding) or the target (translation)."""
    chat: bool = False
    """Whether these are conversations."""
    warnings: list[str] = field(default_factory=list)
    """Messages about what training on the data in this way loses."""
    label_columns: tuple[str, ...] = ()
    """Several columns of 0 and 1, one for each label, in place of the label column."""


_WORDS = {
    "text": "text texts review sentence tweet content question comment body message title description document post",
    "label": "label labels class classes category sentiment target stars rating type y topic intent emotion",
    "sure label": "label labels class",  # whatever the column holds
    "list": "tags genres genre categories topics labels keywords classes emotions",  # several labels
    "annotation": "entities spans annotations relations ner completions result",
    "score": "score scores similarity similarityscore sim label labels relatedness",  # of a pair
    "judgement": "goldlabel entailment entailmentjudgment judgment judgement relation stance quality"
    " duplicate paraphrase correct relevance relevant answerable relatednessscore isduplicate"
    " isparaphrase iscorrect isrelevant isanswer similar issimilar",  # a label or a score of a pair
    "quantity": "target y score scores rating ratings stars grade grades points price value salary"
    " targetscore averagerating avgrating meanscore",
    "rating": "rating ratings star stars starrating score scores grade points overall overallrating"
    " reviewrating reviewscore severity satisfaction csat nps likert priority level quality rate",
    "reply": "chosen rejected",
    "tokens": "tokens words",
    "spans": "spans entities label labels",
}
NAMES = {holds: frozenset(words.split()) for holds, words in _WORDS.items()}
"""By what a column holds, what it is called."""
PAIRS = {
    **{"premise": ("hypothesis",), "claim": ("evidence",), "sentence": ("paraphrase",)},
    **{"context": ("response", "hypothesis"), "prompt": ("completion", "response")},
    "query": ("passage", "document", "doc", "text", "title", "product"),
    "question": ("answer", "sentence", "passage", "paragraph", "context", "response"),
}
"""What the two texts of a pair are called that has a label or score."""
HEADER_NAMES = NAMES["text"] | NAMES["label"] | {"id", "source", "name", "date", "tag"}
"""Names that are never mistaken for values of a row."""
MOST_LABELS = 100
"""A column with more distinct values is a label only when it is named."""
MOST_COUNTED = 1000
"""Distinct values of a column that are held to count how often each occurs."""
CURRENCY = "[$€£¥₹]|EUR|USD|GBP|CHF|JPY|INR|CNY|CAD|AUD|SEK|NOK|DKK|PLN|kr|zł"
BLANK = " \u00a0\u2009\u202f"
"""The blanks that may stand between thousands, and beside a currency."""
MINUS = r"\-−–"
"""The minus sign as people type it, before or after a number or its currency."""
NUMBER = re.compile(
    rf"\(?[+{MINUS}]?[{BLANK}]?({CURRENCY})?[{BLANK}]?[{MINUS}]?"
    rf"(\d{{1,3}}([{BLANK}'’]\d{{3}})+([.,]\d+)?|[\d.,]*\d([eE][-+]?\d+)?)"
    rf"([.,][{MINUS}]{{1,2}}|[{MINUS}])?[{BLANK}]?({CURRENCY}|%)?\)?"
)
"""What is written like a number, an amount of money or a percentage."""
NEARLY_ALL = 0.95
"""The share of numbers from which what is none is a mistake."""
MOST = 0.75
"""The share of numbers from which a column of many is a quantity, and what is none is named."""
FIRST = 10_000
"""Values after which it is known whether a column could be one of numbers."""
TINY = 10
"""In a table of fewer rows nothing has to repeat: a column that is called like a label may be one."""
DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ,]+\d{1,2}:\d{2}.*)?")
"""What is written like a day in numbers, also with a time."""
LABEL_CHARACTERS = 40
"""A label is short: its average length in characters is at most this."""


@dataclass(frozen=True)
class Column:
    """Facts about a column, by which its role is detected."""

    name: str
    distinct: int
    mean_length: float
    numeric: bool
    n_rows: int
    counts: Counter[str] | None = field(default=None, repr=False, compare=False)
    """how often each value occurs, in the order of their first rows; None where there are more than MOST_COUNTED"""
    n_blank: int = 0
    """values without a letter"""
    first_blank: int | None = None
    """the row of the first of them, from 0"""
    nested: bool = False
    """whether all values that are not blank are written like lists or objects of JSON"""
    dates: bool = False
    """whether all of them are days"""
    share_numeric: float = 0.0
    """the share of numbers among them, without those that mean a missing label"""
    native: bool = False
    """whether no value is a text in its file or frame"""
    mixed: bool = False
    """whether some are texts there, and some are not"""

    @property
    def mostly_numeric(self) -> bool:
        """Whether what is no number is a mistake."""
        return self.share_numeric >= NEARLY_ALL

    @cached_property
    def key(self) -> str:
        return re.sub(r"[\W_]+", "", self.name.casefold())

    @cached_property
    def few(self) -> bool:
        """Few distinct, short values that repeat, if only one."""
        few = 1 <= self.distinct <= min(MOST_LABELS, max(2, self.n_rows // 2))
        counted = self.numeric and self.distinct > 20  # ids, years, amounts
        return few and not counted and self.mean_length <= LABEL_CHARACTERS

    def called(self, *holds: str) -> bool:
        """Whether it is called like what holds one of these."""
        return any(self.key in NAMES[one] for one in holds)

    @property
    def called_label(self) -> bool:
        """Whether it is called like a label and could be one: by its name alone, or with few or, in a tiny table, short
        values."""
        short = self.n_rows < TINY and not self.numeric and 0 < self.mean_length <= LABEL_CHARACTERS
        return self.called("sure label") or (self.called("label") and (self.few or short))

    @property
    def label_like(self) -> bool:
        """Few values, and more than one, which are no lists, objects or days."""
        return self.few and self.distinct > 1 and not self.nested and not self.dates

    @property
    def text_like(self) -> bool:
        """Words, and more than one text where there is more than one row."""
        return not self.numeric and not self.nested and self.mean_length > 0 and self.distinct > min(1, self.n_rows - 1)


class Judging:
    """Judges a column whose values come some at a time.

    Distinct values are counted by hashes of 64 bits: of five million, two have the same one with a probability of 1e-6.
    """

    def __init__(self, name: str):
        self.name, self.numeric, self.nested, self.dates, self.native = name, True, True, True, True
        self._numbers = self._missing = 0
        self._kinds: set[type] = set()
        """of the values that are not empty"""
        self._counts: Counter[str] | None = Counter()
        self._hashes = array("q")
        self._rows = self._filled = self._characters = 0
        self._first_blank: int | None = None

    def add(self, values: Sequence[str]) -> None:
        """Take the next values into account."""
        filled = list(filter(None, map(str.strip, values)))
        if self._first_blank is None and len(filled) < len(values):
            self._first_blank = self._rows + next(at for at, value in enumerate(values) if not value.strip())
        self._rows, self._filled = self._rows + len(values), self._filled + len(filled)
        self._characters += sum(map(len, filled))
        kinds = {*map(type, values)}
        self.native = self.native and kinds <= {Native}
        self._kinds |= kinds if len(kinds) == 1 and filled else {type(value) for value in values if value.strip()}
        before = self._filled - len(filled) - self._missing
        if before <= FIRST or self._numbers > before // 2:  # where many are none, they are no mistakes
            others = [value for value in filled if not NUMBER.fullmatch(value)]
            self._numbers += len(filled) - len(others)
            self._missing += sum(map(Merging().is_missing, others))
            self.numeric = self.numeric and not others
        self.nested = self.nested and all(value[0] + value[-1] in ("[]", "{}") for value in filled)
        self.dates = self.dates and all(map(DATE.fullmatch, filled))
        if self._counts is not None:
            self._counts.update(filled)
            if len(self._counts) > MOST_COUNTED:
                self._add_hashes(self._counts)
                self._counts = None
        else:
            self._add_hashes(filled)

    def _add_hashes(self, values: Iterable[str]) -> None:
        self._hashes.frombytes(np.unique(np.fromiter(map(hash, values), dtype=np.int64)).tobytes())

    def column(self) -> Column:
        """What was found."""
        if self._counts is None:
            hashes = np.frombuffer(self._hashes, dtype=np.int64)
            hashes.sort()  # in place: there may be one per row
            distinct = 1 + int((hashes[1:] != hashes[:-1]).sum())
        else:
            distinct = len(self._counts)
        mean, share = self._characters / max(1, self._filled), self._numbers / max(1, self._filled - self._missing)
        kinds = (self.numeric, self.nested, self.dates, self.native)
        numeric, nested, dates, native = (self._filled > 0 and kind for kind in kinds)
        blank = (self._rows - self._filled, self._first_blank)
        facts = (self.name, distinct, mean, numeric, self._rows, self._counts, *blank)
        return Column(*facts, nested, dates, share, native, len(self._kinds) > 1)


def number(written: str) -> float:
    """The number that is written, NaN where there is none or an infinite one."""
    try:
        value = float(written)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
