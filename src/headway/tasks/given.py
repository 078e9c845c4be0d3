"""Data with the facts by which tasks recognise their own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from headway.data.open.columns import Column
from headway.data.open.detected import shape
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table

T = TypeVar("T")


@dataclass(frozen=True)
class Given:
    """Data, with what the user says of them."""

    source: Corpus | Table
    text: str | None = None
    """the column that was named as the text"""
    label: str | None = None
    """the column of labels: the one that was named, or, of classes, the one that was found"""
    second: str | None = None
    """the column that was named as the second text"""
    asked: str | None = None
    """the value of ``--task``"""
    _seen: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The files in a few words, for messages."""
        return self.source.name

    @property
    def shape(self) -> str:
        """The shape of the data (``data.open.detected``)."""
        return shape(self.source)

    @property
    def corpus(self) -> Corpus:
        """Running text."""
        return cast(Corpus, self.source)

    @property
    def table(self) -> Table:
        """Data with columns."""
        return cast(Table, self.source)

    @property
    def only_column(self) -> str | None:
        """The column that running text is from, where its file is a table."""
        return self.corpus.sources[0].column

    @property
    def columns(self) -> list[Column]:
        """Facts about the columns of a table."""
        return self.table.judged()

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns that were named as labels: one, or several by commas."""
        if self.label is None:
            return ()
        several = tuple(part.strip() for part in self.label.split(","))
        return (self.label,) if self.label in self.table.columns or not all(several) else several

    def column(self, name: str | None) -> Column | None:
        """Facts about one column."""
        return next((column for column in self.columns if column.name == name), None)

    def once(self, look: "Callable[[Given], T]") -> T:
        """What ``look`` finds in these data, which are read for it once."""
        if look not in self._seen:
            self._seen[look] = look(self)
        return cast(T, self._seen[look])

    def values(self, name: str) -> Iterable[str]:
        """The values of a column, as they are read."""
        return self.table.values(name)

    def distinct(self, column: Column) -> Iterable[str]:
        """The values of a column without the blank space around them, at least one of each; those of many as read."""
        if column.counts is not None:
            return column.counts
        return (stripped for value in self.values(column.name) if (stripped := value.strip()))
