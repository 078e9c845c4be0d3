"""Images decoded once, into bytes of the size that a model reads, in a file where they are many.

Letters: N images, H height, W width.
"""

import hashlib
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headway.data.batches.cache import held_if_small, written_bytes
from headway.data.batches.tokens import TokenFile, Tokens
from headway.data.images.image_table import IMAGE, ImageTable, advice, check_broken
from headway.data.images.preprocessing import fitted, read_image
from headway.data.records.labels import RARE
from headway.data.records.repeats import text_hashes
from headway.data.records.split import Splittable
from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.io.cache_directory import cache_directory
from headway.io.quantities import counted

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

    def part(self, rows: np.ndarray | slice) -> "Pixels":
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
    """Images (H, W, 3) uint8 of one size; many are in a file that ends with the process."""
    held, many = held_if_small((image.tobytes() for image in images), len, IN_MEMORY)
    if many is None:
        return _all(np.frombuffer(b"".join(held), dtype=np.uint8), size)
    with tempfile.TemporaryDirectory(dir=cache_directory()) as folder:
        path = Path(folder) / "pixels"
        return _all(TokenFile(path, np.dtype(np.uint8), *written_bytes(path, many)), size)  # it stays open


def _all(values: Tokens, size: tuple[int, int]) -> Pixels:
    return Pixels(values, size, np.arange(len(values) // (size[0] * size[1] * 3)))


AT_ONCE = 256
"""Images that are decoded before the next ones are begun."""


@dataclass(frozen=True)
class Decoded(Splittable):
    """Images as a model's batches are made of them."""

    pixels: Pixels
    """(N, H, W, 3) uint8"""
    labels: list[str]
    """the class of each"""
    keys: list[str]
    """a digest of each one's pixels: two images with one key are the same image"""
    hashes: np.ndarray
    """equal for equal images (``text_hashes`` of the keys), int64 (N,)"""
    warnings: list[str]
    """messages"""

    def part(self, rows: np.ndarray | slice) -> "Decoded":
        """Some of them, by number."""
        numbers = np.arange(len(self))[rows]
        labels, keys = ([values[i] for i in numbers] for values in (self.labels, self.keys))
        return replace(super().part(rows), pixels=self.pixels.part(rows), labels=labels, keys=keys)

    @property
    def strata(self) -> np.ndarray:
        return self.targets(sorted(set(self.labels))).astype(np.int32)

    def targets(self, classes: Sequence[str]) -> np.ndarray:
        """The number of each one's class, int64 (N,)."""
        number = {label: at for at, label in enumerate(classes)}
        return np.array([number[label] for label in self.labels], dtype=np.int64)


def decoded(source: ImageTable, how: ImagePreprocessor) -> Decoded:
    """Every image in the size that ``how`` says, as bytes.

    Raises InputError for one that cannot be decoded (with ``on_bad_row`` "skip" it is left out, up to 1 % of all).
    """
    places, classes = source.column(IMAGE), source.labels
    labels: list[str] = []
    keys: list[str] = []
    broken: list[str] = []
    largest = 0

    def one(number: int) -> np.ndarray | str:
        try:
            return _one(source, number, places[number], how)
        except InputError as error:
            return str(error)

    def images(pool: ThreadPoolExecutor) -> Iterator[np.ndarray]:
        nonlocal largest
        for start in range(0, len(source), AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, len(source)))
            for number, found in zip(numbers, pool.map(one, numbers), strict=True):
                if isinstance(found, str):
                    broken.append(found)
                    continue
                labels.append(classes[number])
                keys.append(hashlib.sha256(found.tobytes()).hexdigest())
                largest = max(largest, int(found.max()))
                yield found

    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(os.cpu_count()) as pool:
        pixels = stored(images(pool), how.size)
    if broken and source.on_bad_row != "skip":
        raise InputError(f"{broken[0]}{advice(len(broken))}")
    broken = [*source.broken, *broken]
    check_broken(source.name, broken, len(labels))
    left_out = [f"{counted(len(broken), 'image')} left out, the first: {broken[0]}"] if broken else []
    return Decoded(
        pixels, labels, keys, text_hashes(keys), [*source.notes, *left_out, *_warnings(labels, keys, largest)]
    )


def _one(source: ImageTable, number: int, name: str, how: ImagePreprocessor) -> np.ndarray:
    """An image in the model's size."""
    image = read_image(name) if source.arrays is None else source.arrays[number]
    found = fitted(image, how)
    if found.shape[:2] != how.size:
        raise InputError(f"{name}: is {_by(found.shape[:2])}, and the model reads {_by(how.size)} without resizing.")
    return found


def _warnings(labels: Sequence[str], keys: Sequence[str], largest: int) -> list[str]:
    found = []
    rare = sorted((n, label) for label, n in Counter(labels).items() if n < RARE)
    if rare:
        shown = ", ".join(f"{label!r} ({n})" for n, label in rare[:5]) + ", ..." * (len(rare) > 5)
        found.append(f"{len(rare)} of {len(set(labels))} classes have fewer than {RARE} images: {shown}")
    groups: dict[str, set[str]] = {}
    for key, label in zip(keys, labels, strict=True):
        groups.setdefault(key, set()).add(label)
    if extra := len(keys) - len(groups):
        found.append(f"{counted(extra, 'image')} with the same pixels as another; they stay on one side of the split")
    several = [classes for classes in groups.values() if len(classes) > 1]
    if several:
        example = " and ".join(repr(label) for label in sorted(several[0])[:2])
        found.append(f"{counted(len(several), 'image')} in more than one class, the first in {example}")
    if labels and largest < 64:
        found.append(f"the largest value in all images is {largest} of 255; are they scaled as intended?")
    return found


def _by(size: Sequence[int]) -> str:
    return " × ".join(map(str, size))
