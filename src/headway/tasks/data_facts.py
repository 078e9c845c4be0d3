"""Data with the facts by which tasks recognise their own, and the columns by rules that all share."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

from headway.data.images.image_table import ImageTable
from headway.data.open.columns import ALIGNED, CONVERSATIONS, IMAGES, PAIRS, TABLE, TEXT, TINY, Column
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues
from headway.data.records.rows import some
from headway.errors import InputError
from headway.io.quantities import counted

T = TypeVar("T")
OR_PAIRS = ", or use --task translation for pairs"
"""Another way to use a table in which several columns could be the text."""
TEXT_AND_LABEL = "classification needs a column of texts and one of labels"
SHORT = 8
"""Characters: the texts of a pair are longer on average."""


@dataclass(frozen=True)
class DataFacts:
    """Data, with what the user says of them."""

    source: Any
    """running text, or data with columns (a ``Table``)"""
    text: str | None = None
    """the column that was named as the text"""
    label: str | None = None
    """the column of labels: the one that was named, or, of classes, the one that was found"""
    second: str | None = None
    """the column that was named as the second text"""
    asked: str | None = None
    """the value of ``--task``"""
    _cached: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def shape(self) -> str:
        """The shape of the data (``data.open.detected``)."""
        if isinstance(self.source, Corpus):
            return TEXT
        if isinstance(self.source, ImageTable | Dialogues):
            return IMAGES if isinstance(self.source, ImageTable) else CONVERSATIONS
        return TABLE if self.source.paired is None else ALIGNED

    @property
    def only_column(self) -> str | None:
        """The column that running text is from, where its file is a table."""
        return self.source.sources[0].column

    @property
    def names(self) -> list[str]:
        """The columns that can be named."""
        return [self.only_column or ""] if self.shape == TEXT else self.source.columns

    @property
    def columns(self) -> list[Column]:
        """Facts about the columns of a table."""
        return self.source.judged()

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns that were named as labels: one, or several of a table by commas."""
        if self.label is None:
            return ()
        return self.source.named(self.label) if self.shape == TABLE else (self.label,)

    def column(self, name: str | None) -> Column | None:
        """Facts about one column."""
        return next((column for column in self.columns if column.name == name), None)

    def first(self, name: str) -> str:
        """The first value of a column that is not blank; "" without one."""
        return next((value for value in self.source.values(name) if value.strip()), "")

    def distinct(self, column: Column) -> Iterable[str]:
        """The values of a column, stripped: at least one of each; of many, all as they are read."""
        if column.counts is not None:
            return column.counts
        return (stripped for value in self.source.values(column.name) if (stripped := value.strip()))

    def cached(self, look: "Callable[[DataFacts], T]") -> T:
        """What ``look`` finds in these data, which are read for it once."""
        if look not in self._cached:
            self._cached[look] = look(self)
        return cast(T, self._cached[look])

    def error(self, said: str) -> InputError:
        """The error that says something of the files."""
        return InputError(f"{self.source.name}: {said}")

    def no_table(self, needs: str) -> InputError:
        """The error for running text where a task ``needs`` a table."""
        what = "running text" if self.only_column is None else f"a table with one column, {self.only_column!r}"
        return self.error(f"this is {what}; {needs}.")

    def check_no_second(self) -> None:
        """Raise InputError where a second text was named for a task without one."""
        if self.second is not None:
            raise InputError("--second-column is for pairs of texts: use --task embedding or --task translation.")

    @cached_property
    def likely_texts(self) -> list[Column]:
        """The column of texts, and after it those that could as well be it; none where no column holds texts.

        A column with a usual name comes before others, a long one before a short one.
        """
        others = [column for column in self.columns if column.name != self.label]
        words = [column for column in others if column.text_like and not column.dates]
        if len(words) == 1 and _names_classes(words[0]) and all(one.numeric for one in others if one not in words):
            return []
        named = [column for column in words if column.called("text")]
        unnamed = [column for column in words if not column.called_label]
        nested = any(column.nested for column in others)  # which hold the texts rather than a label does
        found = named or unnamed or ([] if nested else words)
        found = sorted(found, key=lambda column: column.mean_length, reverse=True)
        return found[:1] + [
            column for column in found[1:] if column.mean_length > 0.5 * found[0].mean_length and not column.label_like
        ]

    def likely_labels(self, text: str) -> list[Column]:
        """The columns that could be the label."""
        others = [column for column in self.columns if column.name != text]
        sure = [column for column in others if column.called("sure label")]
        named = [column for column in others if column.called_label]
        return sure or named or [column for column in others if column.label_like]

    @cached_property
    def judged_pairs(self) -> tuple[str, str, str] | None:
        """Two columns of texts called like the two of a pair, and a label or a score of the pair."""
        for first, second, sure in self.pairs:
            for column in self.columns:
                if column not in (first, second) and (column.name == self.label or _judges(column, sure)):
                    return first.name, second.name, column.name
        return None

    @cached_property
    def pairs(self) -> list[tuple[Column, Column, bool]]:
        """Columns of texts called like the two of a pair, and whether their names say enough by themselves."""
        if self.text is not None:
            return []
        texts = {column.key: column for column in self.columns if column.text_like and column.mean_length >= SHORT}
        named = ((first, texts.get(other), sure) for key, first in texts.items() for other, sure in _seconds(key))
        return [(a, b, sure) for a, b, sure in named if b is not None and not _is_other_text(texts, a, b)]

    @property
    def possible_text(self) -> str | None:
        """The column of texts, beside which labels are looked for; None where there is none."""
        texts = [self.text] if self.text else self.judged_pairs or [column.name for column in self.likely_texts]
        return texts[0] if texts else None

    def only_text(self, otherwise: str = "") -> Column:
        """The column that the texts are in; the only column whatever it holds.

        Raises InputError when none or several could be it, with ``otherwise``: the other things that can be done then.
        """
        found = self.likely_texts if len(self.columns) > 1 else self.columns
        if not found:
            columns = some(self.names)
            raise self.error(f"no column holds texts; found: {columns}. Name one with --text-column.")
        if len(found) > 1:
            names = " and ".join(repr(column.name) for column in found[:20])
            raise self.error(f"the columns {names} could each be the text; choose one with --text-column{otherwise}.")
        return found[0]

    def find_text(self, reasons: list[str]) -> str:
        """The column of texts: the named one, or the first of a pair that is not read as one, or the likely one.

        Raises InputError when none or several could be it, and where a second text was named.
        """
        self.check_no_second()
        if self.text is not None:
            reasons.append(f"column {self.text!r} is the text, as asked")
            return self.text
        if pair := self.judged_pairs:
            reasons.append(f"column {pair[0]!r} is the first of a pair: taken as the text (--text-column to change)")
            return pair[0]
        best = self.only_text(OR_PAIRS)
        empty = [column.name for column in self.columns if column.called("text") and not column.mean_length]
        if best.called("label") and empty:
            raise self.error(f"column {empty[0]!r} is empty; name the column of texts with --text-column.")
        reasons.append(
            f"column {best.name!r} holds texts of {best.mean_length:,.0f} characters on average: "
            "taken as the text (--text-column to change)"
        )
        return best.name

    def find_label(self, text: str, reasons: list[str]) -> str | None:
        """The column of labels; None where nothing looks like one.  Raises InputError when several could be it."""
        if self.label is not None:
            reasons.append(f"column {self.label!r} is the label, as asked")
            return self.label
        found = self.likely_labels(text)
        if len(found) > 1:
            names = some([repr(column.name) for column in found])
            raise self.error(
                f"several columns could be the label: {names}. Choose one with --label-column, or several "
                "to learn together, each with --label-column; or use --task language_modeling."
            )
        for best in found:
            reasons.append(
                f"column {best.name!r} has {counted(best.distinct, 'distinct value')} in "
                f"{best.n_rows:,} rows: taken as the label (--label-column to change)"
            )
        return found[0].name if found else None

    def two_texts(self, task: str, columns: list[Column], score: str | None = None) -> tuple[str, str]:
        """The two columns of texts of a task's pairs: those that were named, the others in their order in the file.

        Raises InputError unless they are clear.
        """
        named = (self.text, self.second, score)
        words = [column for column in columns if column.text_like and column.name not in named]
        texts = [column.name for column in words if not (column.few and column.called("label"))]
        wanted = named[:2].count(None)
        if len(texts) < wanted or (len(texts) > wanted and wanted):
            found = some([repr(text) for text in texts]) or "none"
            raise self.error(
                f"{task} needs two columns of texts; found {found}. Name them with --text-column and --second-column."
            )
        first = texts.pop(0) if self.text is None else self.text
        return first, texts.pop(0) if self.second is None else self.second


def _names_classes(column: Column) -> bool:
    """Whether a column of single words that repeat says, beside measurements, to which class a row belongs."""
    words = not any(map(re.compile(r"\s").search, column.counts or " "))
    return words and column.label_like and column.n_rows >= TINY and not column.called("text")


def _seconds(key: str) -> Iterator[tuple[str, bool]]:
    """What the second text is called where the first is called ``key``, and whether that says enough by itself."""
    if key[1:] and key[-1] in "1a":
        yield key[:-1] + {"1": "2", "a": "b"}[key[-1]], True
    if key.startswith("first"):
        yield f"second{key.removeprefix('first')}", True
    yield from ((other, key == "premise") for other in PAIRS.get(key, ()))


def _is_other_text(texts: dict[str, Column], first: Column, second: Column) -> bool:
    """Whether the text of each row is in a third column: the next of a series, a longer one, one with a usual name."""
    if second.key[-1] in "2b" and second.key[:-1] + {"2": "3", "b": "c"}[second.key[-1]] in texts:
        return True
    most = max(first.mean_length, second.mean_length)
    rest = (column for key, column in texts.items() if not key.startswith((first.key, second.key)) and not column.few)
    return any(column.mean_length > most or (column.called("text") and column.key != "title") for column in rest)


def _judges(column: Column, sure: bool) -> bool:
    """Whether a column is called like one that judges pairs; of sure pairs, like any label."""
    called = column.called("sure label", "score", "judgement", *(["label"] if sure else []))
    return (column.few or column.numeric) and (called or (sure and column.key.startswith("is")))
