"""The texts of a file, in bounded memory."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.data.records.chunks import Chunk
    from headway.data.records.table import Table

CHARACTERS = 4
"""Characters of a token, about."""


class Texts(Sequence[str]):
    """A column of a table, read from its file in order; the rows of the piece that is being answered are held.

    Any other text is found by reading the file from its beginning.
    """

    def __init__(self, table: "Table", column: str):
        self.table, self.column = table, column
        self.others = [name for name in table.columns if len(table.columns) > 1 and not name == column == "text"]
        """the columns that a file of results repeats: an answer has its text in a column of that name"""
        self._held: deque[tuple[int, Chunk]] = deque()

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[str]:
        return self.table.values(self.column)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        at = range(len(self))[index]  # negative indices too; IndexError out of range
        if self._held and self._held[0][0] <= at < self._held[-1][0] + len(self._held[-1][1]):
            return self.row(at)[self.column]
        return next(islice(self, at, None))

    def row(self, number: int) -> dict[str, str]:
        """A row of the present piece."""
        start, chunk = next((start, chunk) for start, chunk in reversed(self._held) if start <= number)
        return {name: values[number - start] for name, values in chunk.columns.items()}

    def pieces(self, most: int) -> Iterator[tuple[int, list[str]]]:
        """``pieces`` of the texts; the rows of the latest piece are held."""
        self._held.clear()
        for start, part in _pieces(self._held_as_read(), most):
            while self._held[0][0] + len(self._held[0][1]) <= start:
                self._held.popleft()
            yield start, part

    def _held_as_read(self) -> Iterator[str]:
        start = 0
        for chunk in self.table.chunks():
            self._held.append((start, chunk))
            yield from chunk.columns[self.column]
            start += len(chunk)


def pieces(inputs: Iterable[Any], most: int) -> Iterator[tuple[int, list[Any]]]:
    """Parts of the inputs in order, each with the number of its first input; a part ends at ``most`` characters."""
    return inputs.pieces(most) if isinstance(inputs, Texts) else _pieces(inputs, most)


def _pieces(inputs: Iterable[Any], most: int) -> Iterator[tuple[int, list[Any]]]:
    start, size = 0, 0
    part: list[Any] = []
    for one in inputs:
        part.append(one)
        size += CHARACTERS + (len(one) if isinstance(one, str) else 0)
        if size >= most:
            yield start, part
            start, size, part = start + len(part), 0, []
    if part:
        yield start, part
