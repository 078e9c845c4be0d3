"""Sequences of texts, read on demand or held in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headway.data.records.table import Table


class TextRows(Protocol):
    """Texts of known lengths that can be iterated any number of times."""

    @property
    def lengths(self) -> np.ndarray:
        """The characters of each text, (N,)."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...

    def part(self, rows: np.ndarray) -> "TextRows":
        """Some of them, by their numbers in ascending order."""


@dataclass(frozen=True)
class TextList:
    """Texts in memory."""

    texts: Sequence[str]

    @property
    def lengths(self) -> np.ndarray:
        """The characters of each text, int64 (N,)."""
        return np.fromiter(map(len, self.texts), dtype=np.int64, count=len(self.texts))

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def part(self, rows: np.ndarray) -> "TextList":
        """Some of them, by number."""
        return TextList([self.texts[i] for i in rows])


@dataclass(frozen=True)
class TextColumn:
    """The texts of a column of a table in some of its rows."""

    table: Table
    column: str
    index: np.ndarray
    """The numbers of the rows in the table in ascending order, int64 (N,)."""
    lengths: np.ndarray
    """The characters of each text, int32 (N,)."""

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[str]:
        return self.table.texts(self.column, self.index)

    def part(self, rows: np.ndarray) -> "TextColumn":
        """Some of them, by their numbers here in ascending order."""
        return TextColumn(self.table, self.column, self.index[rows], self.lengths[rows])
