"""A table of strings with the file and line of every row; a large one is read again when needed."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

import numpy as np

from headway.data.open.columns import Column, Judging
from headway.data.open.files import unit
from headway.data.records.chunks import ROWS, Chunk
from headway.data.records.rows import missing_column, place_of
from headway.io.quantities import plural


class StreamedRows(Sequence[dict[str, str]]):
    """The rows of a table, with one chunk in memory at a time: fast in order, slow in any other order."""

    def __init__(self, stream: Callable[[], Iterator[Chunk]], count: int):
        self._stream, self._count = stream, count
        self._chunks: Iterator[Chunk] = iter(())
        self._start, self._rows = count, list[dict[str, str]]()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[dict[str, str]]:
        return (row for chunk in self._stream() for row in chunk.rows())

    @overload
    def __getitem__(self, index: int) -> dict[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, str]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, str] | list[dict[str, str]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        at = range(self._count)[index]  # negative too, and IndexError beyond
        if at < self._start:
            self._chunks, self._start, self._rows = self._stream(), 0, []
        while at >= self._start + len(self._rows):
            self._start, self._rows = self._start + len(self._rows), list(next(self._chunks).rows())
        return self._rows[at - self._start]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Table:
    """Rows of strings with named columns, from one or more files.

    ``chunks``, ``values`` and ``texts`` read them in their order, any number of times and in bounded memory; ``column``
    holds all values of a column.
    """

    paths: tuple[Path, ...]
    columns: list[str]
    rows: Sequence[dict[str, str]]
    row_numbers: Sequence[int]
    """The line of its file at which each row starts; of a .csv the row as a spreadsheet shows it, where the header is
    row 1 unless blank lines stand above it; of a .parquet the row, from 1; in memory from 0."""
    fingerprint: str
    """SHA-256 of the content in hexadecimal; for one file, of its unpacked bytes."""
    n_bytes: int = 0
    """Bytes in the files, after unpacking."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(place, reason) of each malformed row that was left out."""
    starts: list[int] = field(default_factory=lambda: [0])
    """The index of the first row of each file."""
    folders: tuple[Path, ...] = ()
    """The folders that were given, where each file is one row and its folder the label."""
    paired: Path | None = None
    """The file whose lines are the second column, where each column is a file of its own."""
    stream: Callable[[], Iterator[Chunk]] | None = field(default=None, repr=False, compare=False)
    """Reads the rows again; None where they are held."""
    reading: str = ""
    """What decides, with the content, what the rows are: how the files are read."""
    held: Callable[[int], object] | None = field(default=None, repr=False, compare=False)
    """The index label of a row, if handed over in memory: then there is no file, and ``paths`` says what it is."""
    facts: list[Column] | None = field(default=None, repr=False, compare=False)
    """Facts about the columns, where reading has found them."""

    @property
    def inputs(self) -> list[str]:
        """All files, as they were given."""
        return [str(path) for path in self.folders or (*self.paths, *([] if self.paired is None else [self.paired]))]

    @property
    def path(self) -> Path:
        """The first file."""
        return self.paths[0]

    @property
    def name(self) -> str:
        """The files in a few words, for messages."""
        if self.paired is not None:
            return f"{self.path} and {self.paired}"
        paths = self.folders or self.paths
        return str(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[str]:
        """The values of one column; InputError names the nearest column when there is none of that name."""
        return list(self.values(name))

    def values(self, name: str) -> Iterator[str]:
        """The same, as they are read."""
        self.check_column(name)
        return (value for chunk in self.chunks() for value in chunk.columns[name])

    def check_column(self, name: str) -> None:
        """Raise InputError, which names the nearest column, when there is none of that name."""
        if name not in self.columns:
            raise missing_column(self.name, name, self.columns)

    def chunks(self) -> Iterator[Chunk]:
        """All rows, some at a time."""
        return self._held() if self.stream is None else self.stream()

    def _held(self) -> Iterator[Chunk]:
        for start in range(0, len(self.rows), ROWS):
            rows = self.rows[start : start + ROWS]
            columns = {name: [row[name] for row in rows] for name in self.columns}
            yield Chunk(columns, self.row_numbers[start : start + ROWS])

    def texts(self, name: str, index: np.ndarray) -> Iterator[str]:
        """The values of a column in some rows, by their numbers in ascending order."""
        return (value for (value,) in self.cells([name], index))

    def cells(self, names: Sequence[str], index: np.ndarray) -> Iterator[tuple[str, ...]]:
        """The same of several columns."""
        start = at = 0
        for chunk in self.chunks() if len(index) else ():
            end = int(np.searchsorted(index, start + len(chunk)))
            columns = [chunk.columns[name] for name in names]
            for row in (index[at:end] - start).tolist():
                yield tuple([values[row] for values in columns])
            start, at = start + len(chunk), end
            if at == len(index):
                return

    def judged(self, *names: str) -> list[Column]:
        """What counts when these columns are judged; without names, all that have one."""
        if self.facts is None:
            judging = [Judging(name) for name in self.columns]
            for chunk in self.chunks():
                for one in judging:
                    one.add(chunk.columns[one.name])
            self.facts = [one.column() for one in judging]
        return [column for column in self.facts if (column.name in names if names else column.name)]

    def place(self, index: int) -> str:
        """Where row `index` stands: "line 7", "row 7" or "index 7", with the file when there are several."""
        path = self.paths[bisect_right(self.starts, index) - 1]
        if self.folders:
            return f"{path.parent.name}/{path.name}"
        place = place_of(path, self.row_numbers[index], self.held)
        return place if len(self.paths) == 1 else f"{path.name} {place}"

    def places(self, indices: Sequence[int], most: int = 5) -> str:
        """Where some rows stand, the first five of them: "lines 3, 7, 77, ..."."""
        shown = list(indices[:most])
        dots = ", ..." if len(indices) > most else ""
        if len(self.paths) == 1 and not self.folders:
            numbers = ", ".join(self.place(i).partition(" ")[2] for i in shown)
            return f"{'index' if self.held else plural(len(indices), unit(self.path))} {numbers}{dots}"
        return ", ".join(self.place(i) for i in shown) + dots


def table(rows: Iterable[dict[str, str]], columns: Sequence[str], path: Path, fingerprint: str = "") -> Table:
    """A table of rows that are in memory already, as though they stood in a .csv at `path`, one line each."""
    kept = list(rows)
    return Table((path,), list(columns), kept, list(range(2, len(kept) + 2)), fingerprint)
