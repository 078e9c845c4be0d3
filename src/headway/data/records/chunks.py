"""Chunks of rows of a table, column by column, and the line numbers of rows."""

import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from headway.data.open.files import split_lines

ROWS = 8192
"""Rows of a chunk at most, where rows come one by one."""
CHARACTERS = 4 << 20
"""Characters of such a chunk, about."""


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
    numbers: list[int] = []
    held: list[Sequence[str]] = []
    size = 0
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
    starts = range(0, len(numbers), ROWS)
    parts = ((slice(start, start + ROWS)) for start in starts)
    chunks = [Chunk({name: values[part] for name, values in columns.items()}, numbers[part]) for part in parts]
    return chunks.__iter__


def line_chunks(column: str, pieces: Iterable[str], place: object = "standard input") -> Iterator[Chunk]:
    """The lines of a text in pieces (``split_lines``), as chunks of one column."""
    number = 1
    for lines in split_lines(pieces, place):
        yield Chunk({column: lines}, range(number, number + len(lines)))
        number += len(lines)


class LineNumbers(Sequence[int]):
    """The number of each row, of which runs such as 2, 3, 4, ... take no memory."""

    def __init__(self) -> None:
        self._parts, self._starts = list[Sequence[int]](), list[int]()
        self._count = 0

    def extend(self, numbers: Sequence[int]) -> None:
        """Add the numbers of the next rows."""
        if not len(numbers):
            return
        is_run = numbers[-1] - numbers[0] == len(numbers) - 1  # they ascend
        part = range(numbers[0], numbers[-1] + 1) if is_run else array("q", numbers)
        last = self._parts[-1] if self._parts else ()
        if isinstance(part, range) and isinstance(last, range) and last.stop == part.start:
            self._parts[-1] = range(last.start, part.stop)
        else:
            self._parts.append(part)
            self._starts.append(self._count)
        self._count += len(numbers)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        at = range(self._count)[index]  # negative too, and IndexError beyond
        part = bisect_right(self._starts, at) - 1
        return self._parts[part][at - self._starts[part]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
