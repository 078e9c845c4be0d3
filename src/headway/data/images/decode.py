"""Pictures decoded once, into bytes of the size that a model reads.

Letters: N pictures, H height, W width.
"""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from headway.data.images.pictures import LABEL, PICTURE, Pictures, advice, check_broken
from headway.data.images.preprocessing import fitted, read_image
from headway.data.records.labels import RARE
from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.io.memory import total_bytes
from headway.io.quantities import counted, size

MOST_MEMORY = 0.5
"""The share of the machine's memory that decoded pictures may take."""


@dataclass(frozen=True)
class Decoded:
    """Pictures as a model's batches are made of them."""

    pixels: np.ndarray
    """(N, H, W, 3) uint8"""
    labels: list[str]
    """the class of each"""
    keys: list[str]
    """a digest of each one's pixels: two pictures with one key are the same picture"""
    warnings: list[str]
    """messages"""

    def __len__(self) -> int:
        return len(self.labels)


def decoded(source: Pictures, how: ImagePreprocessor) -> Decoded:
    """Every picture in the size that ``how`` says, as bytes.

    Raises InputError for one that cannot be decoded (with ``on_bad_row`` "skip" it is left out, up to 1 % of all), and
    where all together would take more than half of the machine's memory.
    """
    height, width = how.size
    needed, memory = len(source) * height * width * 3, total_bytes()
    if memory is not None and needed > MOST_MEMORY * memory:
        raise InputError(
            f"{source.name}: {len(source):,} pictures of {height} × {width} take {size(needed)}, more than "
            "half of this machine's memory; choose a smaller --image-size, or fewer pictures."
        )
    pixels = np.empty((len(source), height, width, 3), dtype=np.uint8)

    def one(number: int) -> str | None:
        try:
            pixels[number] = _one(source, number, how)
        except InputError as error:
            return str(error)
        return None

    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(pool.map(one, range(len(source))))
    broken = [problem for problem in problems if problem is not None]
    if broken and source.on_bad_row != "skip":
        raise InputError(f"{broken[0]}{advice(len(broken))}")
    kept = [number for number, problem in enumerate(problems) if problem is None]
    broken = [*source.broken, *broken]
    check_broken(source.name, broken, len(kept))
    pixels = pixels if len(kept) == len(source) else pixels[kept]
    labels = [source.rows[number][LABEL] for number in kept]
    keys = [hashlib.sha256(picture.tobytes()).hexdigest() for picture in pixels]
    left_out = [f"{counted(len(broken), 'picture')} left out, the first: {broken[0]}"] if broken else []
    return Decoded(pixels, labels, keys, [*source.notes, *left_out, *_warnings(labels, keys, pixels)])


def _one(source: Pictures, number: int, how: ImagePreprocessor) -> np.ndarray:
    """A picture in the model's size."""
    name = source.rows[number][PICTURE]
    picture = read_image(name) if source.arrays is None else source.arrays[number]
    found = fitted(picture, how)
    if found.shape[:2] != how.size:
        raise InputError(f"{name}: is {_by(found.shape[:2])}, and the model reads {_by(how.size)} without resizing.")
    return found


def _warnings(labels: Sequence[str], keys: Sequence[str], pixels: np.ndarray) -> list[str]:
    found = []
    rare = sorted((n, label) for label, n in Counter(labels).items() if n < RARE)
    if rare:
        shown = ", ".join(f"{label!r} ({n})" for n, label in rare[:5]) + ", ..." * (len(rare) > 5)
        found.append(f"{len(rare)} of {len(set(labels))} classes have fewer than {RARE} pictures: {shown}")
    groups: dict[str, set[str]] = {}
    for key, label in zip(keys, labels, strict=True):
        groups.setdefault(key, set()).add(label)
    if extra := len(keys) - len(groups):
        found.append(f"{counted(extra, 'picture')} with the same pixels as another; they stay on one side of the split")
    several = [classes for classes in groups.values() if len(classes) > 1]
    if several:
        example = " and ".join(repr(label) for label in sorted(several[0])[:2])
        found.append(f"{counted(len(several), 'picture')} in more than one class, the first in {example}")
    if len(pixels) and int(pixels.max()) < 64:
        found.append(f"the largest value in all pictures is {int(pixels.max())} of 255; are they scaled as intended?")
    return found


def _by(size: Sequence[int]) -> str:
    return " × ".join(map(str, size))
