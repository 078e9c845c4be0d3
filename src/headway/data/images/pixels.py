"""Images of one size as bytes, in a file where they are many.

Letters: N images, H height, W width.
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headway.data.batches.cache import replacing
from headway.data.batches.checksums import BlockSums
from headway.data.batches.tokens import TokenFile, Tokens
from headway.io.cache_directory import cache_directory

IN_MEMORY = 1 << 26
"""Bytes up to which images are kept in memory, without a file."""


@dataclass(frozen=True, eq=False)
class Pixels:
    """Images (N, H, W, 3) uint8; those that are asked for come as an array."""

    values: Tokens
    """all bytes, uint8, image after image"""
    size: tuple[int, int]
    """height and width"""
    index: np.ndarray
    """the numbers of the images among those in ``values``, int64 (N,)"""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(N, H, W, 3)."""
        return (len(self.index), *self.size, 3)

    @property
    def held(self) -> int:
        """The bytes of all images in ``values``, if they are in memory; else 0."""
        return self.values.nbytes if isinstance(self.values, np.ndarray) else 0

    def part(self, rows: np.ndarray) -> "Pixels":
        """Some of them, by number."""
        return replace(self, index=self.index[rows])

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: int | slice | np.ndarray) -> np.ndarray:
        """One image (H, W, 3), or some (B, H, W, 3)."""
        if isinstance(rows, int | np.integer):
            return self[np.array([rows])][0]
        each = self.size[0] * self.size[1] * 3
        starts = self.index[rows] * each
        found = np.empty((len(starts), *self.size, 3), dtype=np.uint8)
        for at, start in enumerate(starts.tolist()):
            found[at] = self.values[start : start + each].reshape(found.shape[1:])
        return found

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[at] for at in range(len(self)))

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """All of them."""
        return self[:].astype(np.uint8 if dtype is None else dtype)


def stored(images: Iterable[np.ndarray], size: tuple[int, int]) -> Pixels:
    """Images (H, W, 3) uint8 of one size; what does not stay in memory is in a file that ends with the process."""
    rest, held = iter(images), bytearray()
    for image in rest:
        held += image.tobytes()
        if len(held) > IN_MEMORY:
            return _written(held, rest, size)
    return _all(np.frombuffer(bytes(held), dtype=np.uint8), size)


def _written(held: bytearray, rest: Iterator[np.ndarray], size: tuple[int, int]) -> Pixels:
    sums, count = BlockSums(), 0
    with tempfile.TemporaryDirectory(dir=cache_directory()) as folder:
        path = Path(folder) / "pixels"
        with replacing(path) as file:
            for data in _chained(held, rest):
                file.write(data)
                sums.add(data)
                count += len(data)
        return _all(TokenFile(path, np.dtype(np.uint8), count, sums.values()), size)  # it stays open


def _chained(held: bytearray, rest: Iterator[np.ndarray]) -> Iterator[bytes]:
    """The bytes that are held, which are let go, and those that follow."""
    yield bytes(held)
    held.clear()
    for image in rest:
        yield image.tobytes()


def _all(values: Tokens, size: tuple[int, int]) -> Pixels:
    return Pixels(values, size, np.arange(len(values) // (size[0] * size[1] * 3)))
