"""Tokens in a file, of which only what is asked for is read into memory."""

import os
from pathlib import Path

import numpy as np

from headway.errors import InputError


class TokenFile:
    """A row of token ids in a file: its length, slices and single ids, as of an array that cannot be written.

    A memory map would do as well, but each of its pages that was looked at once counts as memory of the process, until
    all of the file does.  Raises InputError when the file has become shorter.
    """

    def __init__(self, path: Path, dtype: np.dtype, count: int):
        self.path, self.dtype, self._count = path, dtype, count
        self._file = path.open("rb", buffering=0)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int | slice) -> np.ndarray:
        """The ids of a slice without steps, or the id (a scalar) at a place."""
        if not isinstance(index, slice):
            place = index + self._count if index < 0 else index
            if not 0 <= place < self._count:
                raise IndexError(f"there is no token {index} of {self._count}")
            return self._read(place, 1)[0]
        start, stop, step = index.indices(self._count)
        if step != 1:
            raise ValueError(f"step is {step}, expected 1")
        return self._read(start, max(0, stop - start))

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """All of them."""
        return self._read(0, self._count).astype(self.dtype if dtype is None else dtype)

    def tolist(self) -> list[int]:
        """All of them."""
        return self._read(0, self._count).tolist()

    def _read(self, start: int, count: int) -> np.ndarray:
        size = self.dtype.itemsize
        found = os.pread(self._file.fileno(), count * size, start * size)  # threads and workers share the file's place
        if len(found) < count * size:
            raise InputError(f"{self.path}: this cache was cut short while it was in use; run the command again.")
        return np.frombuffer(found, dtype=self.dtype)


Tokens = np.ndarray | TokenFile
"""A long row of token ids, in memory or in a file."""
