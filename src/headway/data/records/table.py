"""A table of strings with the file and line of every row; a large one is read again when needed."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from headway.data.open.columns import Column, Judging
from headway.data.open.files import Tally, fingerprint_of, kind, unit
from headway.data.records.rows import BadRows, Chunk, LineNumbers, OpenTable, columns_named, missing_column, place_of
from headway.errors import InputError
from headway.io.quantities import plural

HELD = 8 << 20
"""The most characters of a table that stay in memory after reading, so that a small file is read once."""


@dataclass
class Table:
    """Rows of strings with named columns, from one or more files.

    Iterating, ``chunks``, ``values`` and ``texts`` read them in their order, any number of times and in bounded memory;
    ``rows`` and ``column`` hold all of them.
    """

    paths: tuple[Path, ...]
    columns: list[str]
    chunks: Callable[[], Iterator[Chunk]] = field(repr=False, compare=False)
    """Reads all rows, some at a time."""
    row_numbers: Sequence[int]
    """The line of its file at which each row starts; of a .csv the row as a spreadsheet shows it, where the header is
    row 1 unless blank lines stand above it; of a .parquet the row, from 1; in memory from 0."""
    fingerprint: str
    """SHA-256 of the content in hexadecimal; for one file, of its unpacked bytes."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(place, reason) of each malformed row that was left out."""
    starts: list[int] = field(default_factory=lambda: [0])
    """The index of the first row of each file."""
    folders: tuple[Path, ...] = ()
    """The folders that were given, where each file is one row and its folder the label."""
    paired: Path | None = None
    """The file whose lines are the second column, where each column is a file of its own."""
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
        return len(self.row_numbers)

    def __iter__(self) -> Iterator[dict[str, str]]:
        return (row for chunk in self.chunks() for row in chunk.rows())

    @property
    def rows(self) -> list[dict[str, str]]:
        """All rows, held in memory."""
        return list(self)

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

    def named(self, names: str) -> tuple[str, ...]:
        """The columns that a name means (``rows.columns_named``)."""
        return columns_named(names, self.columns)

    def without(self, name: str) -> "Table":
        """The table with one column less, if it is there; ``cells`` still gives its values."""
        rest = [column for column in self.columns if column != name]
        facts = None if self.facts is None else [column for column in self.facts if column.name != name]
        return replace(self, columns=rest, facts=facts)

    def joined(self, names: str | None) -> "Table":
        """The table with a column called as ``names`` in place of these, where they are several by commas.

        It holds what is filled of them in each row, one below the other.  The rows still have them.  Raises InputError
        for one that there is not.
        """
        parts = self.named(names or "")
        if names is None or len(parts) < 2:
            return self
        for part in parts:
            self.check_column(part)

        def chunks() -> Iterator[Chunk]:
            for chunk in self.chunks():
                rows = zip(*(chunk.columns[part] for part in parts), strict=True)
                joined = ["\n".join(cell for cell in row if cell.strip()) for row in rows]
                yield Chunk({**chunk.columns, names: joined}, chunk.numbers)

        others = [column for column in self.columns if column not in parts]
        return replace(self, columns=[*others, names], chunks=chunks, facts=None)

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


Open = Callable[[Sequence[BadRows], Sequence[Tally | None]], Iterator[OpenTable]]
"""Opens some files one after another, each with what becomes of its malformed rows and with the tally of its content;
the rows of one are read before the next is opened."""


def read_table(
    paths: Sequence[Path],
    opened: Open,
    on_bad_row: str,
    reading: str,
    *,
    none: str = "",
    judged: Sequence[str] = (),
    held: Callable[[int], object] | None = None,
) -> Table:
    """A table after one pass over it, with facts about columns; a large one is not held but read again when needed.

    Raises InputError, which says ``none``, for a file without rows.
    """
    judging, numbers = [Judging(name) for name in judged], LineNumbers()
    bad, tallies = [BadRows(path, on_bad_row, held) for path in paths], [Tally() for _ in paths]
    states, starts, columns, size = [_state(path) for path in paths], [], list[str](), 0
    chunks: list[Chunk] | None = []
    for path, malformed, table in zip(paths, bad, opened(bad, tallies), strict=True):
        starts.append(len(numbers))
        columns = columns or table.columns
        for chunk in table.chunks:
            numbers.extend(chunk.numbers)
            for one in judging:
                one.add(chunk.columns[one.name])
            size += chunk.size()
            if size > HELD:
                chunks = None
            elif chunks is not None:
                chunks.append(chunk)
        malformed.check(len(numbers) - starts[-1])
        if none and len(numbers) == starts[-1] and kind(path) != "text":
            raise InputError(f"{path}: {none}")

    def stream() -> Iterator[Chunk]:
        count = 0
        again = opened([BadRows(path, on_bad_row, held) for path in paths], [None] * len(paths))
        for path, state, table in zip(paths, states, again, strict=True):
            for chunk in table.chunks:
                count += len(chunk)
                yield chunk
            if _state(path) != state:
                count = -1
        if count != len(numbers):
            raise InputError(f"{path}: this file has changed while it was in use; run the command again.")

    return Table(
        tuple(paths),
        columns,
        stream if chunks is None else chunks.__iter__,
        numbers,
        fingerprint_of([tally.digest for tally in tallies]),
        [one for malformed in bad for one in malformed.skipped],
        starts,
        reading=reading,
        held=held,
        facts=[one.column() for one in judging] or None,
    )


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of a file, to detect changes; None of what is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
