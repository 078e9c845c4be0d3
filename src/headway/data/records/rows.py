"""Rows of a table during reading, and what happens to malformed ones."""

import csv
import difflib
import json
from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, overload

from headway.data.open.files import Tally, split_lines, unit
from headway.errors import InputError
from headway.io.quantities import counted

ROWS = 8192
"""Rows of a chunk at most, where rows come one by one."""
CHARACTERS = 4 << 20
"""Characters of such a chunk, about."""
Item = TypeVar("Item")


class Native(str):
    """A cell that is a number, true, false, a list or an object in its file or frame, as JSON; "" is null."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The value itself."""
        return json.loads(self) if self else None


@dataclass(frozen=True)
class Chunk:
    """Rows that follow each other: the values of each column, and the line (or row) of the file of each."""

    columns: dict[str, list[str]]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def rows(self) -> Iterator[dict[str, str]]:
        """The rows one by one."""
        names = list(self.columns)
        return (dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True))

    def size(self) -> int:
        """The characters in it."""
        return sum(sum(map(len, values)) for values in self.columns.values())


def numbered_rows(chunks: Iterable[Chunk]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of some chunks one by one, each with its number."""
    return (row for chunk in chunks for row in zip(chunk.numbers, chunk.rows(), strict=True))


def chunked(columns: Sequence[str], rows: Iterable[tuple[int, Sequence[str]]]) -> Iterator[Chunk]:
    """Rows that come one by one, each with its number, as chunks."""
    numbers, held, size = list[int](), list[Sequence[str]](), 0
    for number, row in rows:
        numbers.append(number)
        held.append(row)
        size += sum(map(len, row))
        if len(held) >= ROWS or size >= CHARACTERS:
            yield chunk_of(columns, held, numbers)
            numbers, held, size = [], [], 0
    if held:
        yield chunk_of(columns, held, numbers)


def chunk_of(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> Chunk:
    """The chunk of some rows, at least one."""
    return Chunk(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)), numbers)


def held(columns: dict[str, list[str]], numbers: Sequence[int]) -> Callable[[], Iterator[Chunk]]:
    """What reads columns in memory again and again, as the chunks of a table."""
    parts = [slice(start, start + ROWS) for start in range(0, len(numbers), ROWS)]
    chunks = [Chunk({name: values[part] for name, values in columns.items()}, numbers[part]) for part in parts]
    return chunks.__iter__


def line_chunks(column: str, pieces: Iterable[str], place: object = "standard input") -> Iterator[Chunk]:
    """The lines of a text in pieces (``split_lines``), as chunks of one column."""
    number = 1
    for lines in split_lines(pieces, place):
        yield Chunk({column: lines}, range(number, number + len(lines)))
        number += len(lines)


class LazySequence(Sequence[Item]):
    """A sequence whose items are made when they are asked for."""

    @abstractmethod
    def item(self, at: int) -> Item:
        """One item, by its number from 0."""

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self.item(at) for at in range(*index.indices(len(self)))]
        return self.item(range(len(self))[index])  # negative too, and IndexError beyond

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class LineNumbers(LazySequence[int]):
    """The number of each row, of which runs such as 2, 3, 4, ... take no memory."""

    def __init__(self) -> None:
        self._starts, self._ahead, self._count = array("q"), array("q"), 0
        """the rows at which a run begins, and how far the numbers in it are ahead of those of the rows"""

    def extend(self, numbers: Sequence[int]) -> None:
        """Add the numbers of the next rows."""
        is_run = len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1  # they ascend
        for row, number in enumerate(numbers[:1] if is_run else numbers, start=self._count):
            if not self._ahead or self._ahead[-1] != number - row:
                self._starts.append(row)
                self._ahead.append(number - row)
        self._count += len(numbers)

    def __len__(self) -> int:
        return self._count

    def item(self, at: int) -> int:
        """The number of one row."""
        return at + self._ahead[bisect_right(self._starts, at) - 1]


SKIP_SHARE = 0.01
"""The share of rows that may be skipped; more than this (and more than SKIP_ROWS) is an error."""
SKIP_ROWS = 5
SKIP = "--on-bad-row skip"
"""The option that skips them."""


def columns_named(names: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that a name means: itself, or several with commas between them, quoted where they have one."""
    if names in columns:
        return (names,)
    quoted = [part.strip() for part in next(csv.reader([names], skipinitialspace=True), [names])]
    parts = [part for name in quoted for part in ([name] if name in columns or '"' in names else name.split(","))]
    return tuple(parts) if all(parts) or '"' in names else (names,)


@dataclass
class OpenTable:
    """A table whose columns are known and whose rows are still to be read."""

    columns: list[str]
    chunks: Iterator[Chunk]


@dataclass
class BadRows:
    """What to do with a malformed row of `path`: "error" raises, "skip" keeps (place, reason) in `skipped`."""

    path: Path
    policy: str = "error"
    held: Callable[[int], object] | None = None
    """that of the table"""
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def add(self, number: int, reason: str) -> None:
        """Record a malformed row; under "error", raise InputError with its place."""
        place = place_of(self.path, number, self.held)
        if self.policy != "skip":
            hint = "" if SKIP in reason else f" ({SKIP} leaves such rows out.)"
            raise InputError(f"{self.path}, {place}: {reason}{hint}")
        self.skipped.append((place, reason))

    def check(self, kept: int) -> None:
        """Raise InputError when more rows were skipped than ``check_skipped`` allows."""
        check_skipped(str(self.path), len(self.skipped), kept, "malformed", self.skipped[:1])


def tallied(
    columns: Sequence[str],
    parts: Iterable[tuple[Sequence[int], Sequence[list[str]]]],
    bad: BadRows,
    tally: Tally | None,
) -> Iterator[Chunk]:
    """Parts of a table whose bytes are no text, each the numbers of some rows and their cells by column, as chunks.

    What is tallied are the names of the columns and the cells; a row with a NUL is malformed.
    """
    if tally is not None:
        tally.add_cells([name] for name in columns)
    for numbers, cells in parts:
        if any("\0" in cell for column in cells for cell in column):
            kept = []
            for at, row in enumerate(zip(*cells, strict=True)):
                if name := next((name for name, cell in zip(columns, row, strict=True) if "\0" in cell), None):
                    bad.add(numbers[at], f"a NUL in column {name!r}; expected text. Remove it and run again.")
                else:
                    kept.append(at)
            numbers, cells = [numbers[at] for at in kept], [[column[at] for at in kept] for column in cells]
        if len(numbers):
            if tally is not None:
                tally.add_cells(cells)
            yield Chunk(dict(zip(columns, cells, strict=True)), numbers)


def check_policy(policy: str) -> None:
    """Raise ValueError unless `on_bad_row` is one of its two words."""
    if policy not in ("error", "skip"):
        raise ValueError(f'on_bad_row is {policy!r}, expected "error" or "skip"')


def place_of(path: Path, number: int, held: Callable[[int], object] | None = None) -> str:
    """Where a row stands, for messages: "line 7", "row 7" or, of rows ``held`` in memory, "index 7"."""
    return f"index {held(number)}" if held else f"{unit(path)} {number}"


def check_skipped(name: str, skipped: int, kept: int, what: str, first: Sequence[tuple[str, str]] = ()) -> None:
    """Raise InputError when more than 1 % of the rows, and more than 5, were skipped."""
    total = skipped + kept
    if skipped > SKIP_ROWS and skipped > SKIP_SHARE * total:
        example = f" (first: {first[0][0]}: {first[0][1].rstrip('.')})" if first else ""
        raise InputError(
            f"{name}: {skipped:,} of {total:,} rows are {what}{example}; "
            f"at most {SKIP_SHARE:.0%}, or {SKIP_ROWS} rows, may be skipped. Correct the file."
        )


def left_out(name: str, skipped: Sequence[tuple[str, str]]) -> str:
    """A line about the malformed rows that were left out of a file, with the first three."""
    shown = [f"{place}: {reason.split('. ')[0].rstrip('.')}" for place, reason in skipped]
    more = [f"and {len(shown) - 3:,} more"] if len(shown) > 3 else []
    return f"{name}: {counted(len(skipped), 'malformed row')} left out ({'; '.join(shown[:3] + more)})"


def missing_column(name: str, wanted: str, columns: Sequence[str]) -> InputError:
    """The error for a column that is not there, with the nearest one that is."""
    folded = {column.casefold(): column for column in columns}
    near = difflib.get_close_matches(wanted.casefold(), list(folded), n=1, cutoff=0.6)
    hint = f" Did you mean {folded[near[0]]!r}?" if near else ""
    return InputError(f"{name}: no column {wanted!r}; found: {some(columns)}.{hint}")


def check_same_columns(columns: Mapping[Any, Sequence[str]]) -> None:
    """Raise InputError, naming the file, where one has other columns than the first."""
    (first, expected), *others = columns.items()
    for path, names in others:
        if sorted(names) != sorted(expected):
            raise InputError(
                f"{path}: its columns are {some(names)}, but {first} has {some(expected)}; "
                "files read together need the same columns."
            )


def occurs_twice(names: Iterable[str]) -> str | None:
    """The first name, in alphabetical order, that occurs more than once."""
    return min((name for name, count in Counter(names).items() if count > 1), default=None)


def some(names: Sequence[str], most: int = 20) -> str:
    """Names in a row, for messages; of very many, the first ones."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def shorten(text: str, length: int = 40) -> str:
    """The beginning of a text, in quotes and on one line, for messages."""
    return repr(text if len(text) <= length else text[: length - 1] + "…")
