"""Images decoded once, into bytes of the size that a model reads, which need not fit in memory.

Letters: N images, H height, W width.
"""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from headway.data.images.image_table import IMAGE, LABEL, ImageTable, advice, check_broken
from headway.data.images.pixels import Pixels, stored
from headway.data.images.preprocessing import fitted, read_image
from headway.data.records.labels import RARE
from headway.data.records.repeats import text_hashes
from headway.data.records.split import Splittable
from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.io.quantities import counted

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
    warnings: list[str]
    """messages"""

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rows: np.ndarray) -> "Decoded":
        """Some of them, by number."""
        labels, keys = ([values[i] for i in rows] for values in (self.labels, self.keys))
        return Decoded(self.pixels.part(rows), labels, keys, self.warnings)

    @property
    def hashes(self) -> np.ndarray:  # type: ignore[override]
        """Equal for equal images (``text_hashes`` of the keys), int64 (N,)."""
        return text_hashes(self.keys)

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
    labels: list[str] = []
    keys: list[str] = []
    broken: list[str] = []
    largest = 0

    def one(number: int) -> np.ndarray | str:
        try:
            return _one(source, number, how)
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
                labels.append(source.rows[number][LABEL])
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
    return Decoded(pixels, labels, keys, [*source.notes, *left_out, *_warnings(labels, keys, largest)])


def _one(source: ImageTable, number: int, how: ImagePreprocessor) -> np.ndarray:
    """An image in the model's size."""
    name = source.rows[number][IMAGE]
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
