"""A table of strings that knows the file and the line of every row."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headway.data.files import unit
from headway.data.rows import missing_column
from headway.io.quantities import plural


@dataclass
class Table:
    """Rows of strings with named columns, from one or more files, held in memory."""

    paths: tuple[Path, ...]
    columns: list[str]
    rows: list[dict[str, str]]
    row_numbers: list[int]
    """The line of its file at which each row starts; line 1 is the header of a .csv, the first object of a .jsonl;
    of a .parquet the row, from 1."""
    fingerprint: str
    """SHA-256 of the content in hexadecimal; for one file, of its unpacked bytes."""
    n_bytes: int = 0
    """Bytes in the files, after unpacking."""
    skipped: list[tuple[int, str]] = field(default_factory=list)
    """(line, reason) of each malformed row that was left out."""
    starts: list[int] = field(default_factory=lambda: [0])
    """The index of the first row of each file."""
    beside: Path | None = None
    """The file whose lines are the second column, where each column is a file of its own."""

    @property
    def inputs(self) -> list[str]:
        """All files, as they were given."""
        return [str(path) for path in (*self.paths, *([] if self.beside is None else [self.beside]))]

    @property
    def path(self) -> Path:
        """The first file."""
        return self.paths[0]

    @property
    def name(self) -> str:
        """The files in a few words, for messages."""
        if self.beside is not None:
            return f"{self.path} and {self.beside}"
        more = len(self.paths) - 1
        return str(self.path) + (f" and {more} more" if more else "")

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[str]:
        """The values of one column; InputError names the nearest column when there is none of that name."""
        if name not in self.columns:
            raise missing_column(self.name, name, self.columns)
        return [row[name] for row in self.rows]

    def place(self, index: int) -> str:
        """Where row `index` stands: "line 7", with the file when there are several."""
        path = self.paths[bisect_right(self.starts, index) - 1]
        line = f"{unit(path)} {self.row_numbers[index]}"
        return line if len(self.paths) == 1 else f"{path.name} {line}"

    def places(self, indices: Sequence[int], most: int = 5) -> str:
        """Where some rows stand, the first five of them: "lines 3, 7, 77, ..."."""
        shown = list(indices[:most])
        dots = ", ..." if len(indices) > most else ""
        if len(self.paths) == 1:
            return (
                f"{plural(len(indices), unit(self.path))} " + ", ".join(str(self.row_numbers[i]) for i in shown) + dots
            )
        return ", ".join(self.place(i) for i in shown) + dots


def table(rows: Iterable[dict[str, str]], columns: Sequence[str], path: Path, fingerprint: str = "") -> Table:
    """A table of rows that are in memory already, as though they stood in a .csv at `path`, one line each."""
    kept = list(rows)
    return Table((path,), list(columns), kept, list(range(2, len(kept) + 2)), fingerprint)
