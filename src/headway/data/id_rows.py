"""Many rows of token ids in little memory: a Python list holds each id in 36 bytes, an array in four."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np


class IdRows(Sequence[list[int]]):
    """Rows of ids, of different lengths, in one array; each row is a list when it is asked for."""

    def __init__(self, rows: Iterable[Sequence[int]]):
        ids, ends = array("i"), array("q", [0])
        for row in rows:
            ids.extend(row)
            ends.append(len(ids))
        self._ids, self._ends = np.frombuffer(ids, dtype=np.int32), np.frombuffer(ends, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = range(len(self))[index]  # negative too, and IndexError beyond
        row: list[int] = self._ids[self._ends[at] : self._ends[at + 1]].tolist()
        return row

    def __iter__(self) -> Iterator[list[int]]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
