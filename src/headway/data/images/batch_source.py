"""Batches of images, augmented in each epoch; which images and how depends only on the position.

What is done to an image is a function of (seed, epoch, number of the image), so that a run that is resumed sees
the same images.  There is no flip unless you ask for it: it turns a b into a d, and a right hand into a left one.

Letters: N images, B batch, H height, W width, C channels.
"""

import hashlib
import math
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from headway.data.batches.batch_source import EpochBatches, Position
from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.cache import held_if_small, written_bytes
from headway.data.batches.tokens import TokenFile, Tokens
from headway.data.images.image_table import AUGMENT, IMAGE, ImageTable, advice, check_broken
from headway.data.images.preprocessing import fitted, normalised, read_image
from headway.data.records.labels import Classed, rare_labels
from headway.data.records.repeats import text_hashes
from headway.data.records.split import RowView
from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.io.file_lock import cache_directory
from headway.io.quantities import counted

IN_MEMORY = 1 << 26
"""Bytes up to which images are kept in memory, without a file."""
AT_ONCE = 256
"""Images that are decoded before the next ones are begun."""
SHIFT, TURN, ZOOM, LIGHT = 0.125, 10.0, 0.15, 0.2
"""The maximum at strength 1: shift as a share of the side, rotation in degrees, change of size as a share (each side
by itself), and change of brightness and contrast as a share of the range."""
COLUMNS = 8
"""Numbers that are drawn for each image."""


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
        images = np.empty((len(starts), *self.size, 3), dtype=np.uint8)
        for at, start in enumerate(starts.tolist()):
            images[at] = self.values[start : start + each].reshape(images.shape[1:])
        return images

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[at] for at in range(len(self)))

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """All of them."""
        return self[:].astype(np.uint8 if dtype is None else dtype)


def stored(images: Iterable[np.ndarray], size: tuple[int, int]) -> Pixels:
    """Images (H, W, 3) uint8 of one size; many are in a file that ends with the process."""
    held, many = held_if_small((image.tobytes() for image in images), len, IN_MEMORY)
    if many is None:
        values: Tokens = np.frombuffer(b"".join(held), dtype=np.uint8)
    else:
        with tempfile.TemporaryDirectory(dir=cache_directory()) as folder:
            path = Path(folder) / "pixels"
            values = TokenFile(path, np.dtype(np.uint8), *written_bytes(path, many))  # it stays open
    return Pixels(values, size, np.arange(len(values) // (size[0] * size[1] * 3)))


@dataclass(frozen=True)
class Decoded(Classed, RowView):
    """Images as a model's batches are made of them; ``hashes`` are equal for those with the same pixels."""

    pixels: Pixels
    """(N, H, W, 3) uint8"""
    classes: list[str]
    targets: np.ndarray

    @property
    def strata(self) -> np.ndarray:
        return self.targets


def decoded(source: ImageTable, how: ImagePreprocessor) -> Decoded:
    """Every image in the size that ``how`` says, as bytes.

    Raises InputError for one that cannot be decoded (with ``on_bad_row`` "skip" it is left out, up to 1 % of all).
    """
    places, classes, largest = source.column(IMAGE), source.labels, 0
    labels, keys, broken = list[str](), list[str](), list[str]()

    def one(number: int) -> np.ndarray | str:
        try:
            return _one(source, number, places[number], how)
        except InputError as error:
            return str(error)

    def images(pool: ThreadPoolExecutor) -> Iterator[np.ndarray]:
        nonlocal largest
        for start in range(0, len(source), AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, len(source)))
            for number, image in zip(numbers, pool.map(one, numbers), strict=True):
                if isinstance(image, str):
                    broken.append(image)
                    continue
                labels.append(classes[number])
                keys.append(hashlib.sha256(image.tobytes()).hexdigest())
                largest = max(largest, int(image.max()))
                yield image

    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(os.cpu_count()) as pool:
        pixels = stored(images(pool), how.size)
    if broken and source.on_bad_row != "skip":
        raise InputError(f"{broken[0]}{advice(len(broken))}")
    broken = [*source.broken, *broken]
    check_broken(source.name, broken, len(labels))
    left_out = [f"{counted(len(broken), 'image')} left out, the first: {broken[0]}"] if broken else []
    messages = [*source.notes, *left_out, *_warnings(labels, keys, largest)]
    names, targets = np.unique(labels, return_inverse=True)
    own: dict[str, Any] = {"index": np.arange(len(labels)), "hashes": text_hashes(keys), "warnings": messages}
    return Decoded(pixels, names.tolist(), targets.astype(np.int32), **own)


def _one(source: ImageTable, number: int, name: str, how: ImagePreprocessor) -> np.ndarray:
    """An image in the model's size."""
    image = read_image(name) if source.arrays is None else source.arrays[number]
    resized = fitted(image, how)
    if resized.shape[:2] != how.size:
        raise InputError(f"{name}: is {_by(resized.shape[:2])}, and the model reads {_by(how.size)} without resizing.")
    return resized


def _warnings(labels: Sequence[str], keys: Sequence[str], largest: int) -> list[str]:
    lines = rare_labels(Counter(labels), "classes", "images")
    groups: dict[str, set[str]] = {}
    for key, label in zip(keys, labels, strict=True):
        groups.setdefault(key, set()).add(label)
    if extra := len(keys) - len(groups):
        lines.append(f"{counted(extra, 'image')} with the same pixels as another; they stay on one side of the split")
    several = [classes for classes in groups.values() if len(classes) > 1]
    if several:
        example = " and ".join(repr(label) for label in sorted(several[0])[:2])
        lines.append(f"{counted(len(several), 'image')} in more than one class, the first in {example}")
    if labels and largest < 64:
        lines.append(f"the largest value in all images is {largest} of 255; are they scaled as intended?")
    return lines


def _by(size: Sequence[int]) -> str:
    return " × ".join(map(str, size))


class Augmentation:
    """What is done to ``count`` images in each epoch; ``strength`` 1 allows the maxima above."""

    def __init__(self, kind: str, count: int, seed: int, strength: float = 1.0):
        if kind not in AUGMENT:
            raise ValueError(f"augmentation is {kind!r}, but must be {', '.join(AUGMENT)}")
        self.kind, self.count, self.seed, self.strength = kind, count, seed, strength
        self._latest: tuple[int, np.ndarray] | None = None

    def __call__(self, images: np.ndarray, epoch: int, index: np.ndarray) -> np.ndarray:
        """Images (B, H, W, C) of 0 to 255 that have the numbers ``index`` -> the same as float32, changed."""
        if self.kind == "none":
            return images
        drawn = self._drawn(epoch)[index]  # (B, COLUMNS) from -1 to 1
        moved = warped(images, self._maps(drawn))
        light, contrast = (1 + LIGHT * self.strength * drawn[:, column, None, None, None] for column in (5, 6))
        middle = moved.mean(axis=(1, 2, 3), keepdims=True)
        return np.clip(((moved - middle) * contrast + middle) * light, 0, 255).astype(np.float32)

    def _drawn(self, epoch: int) -> np.ndarray:
        """Numbers from -1 to 1 for every image in an epoch, (count, COLUMNS) float32."""
        if self._latest is None or self._latest[0] != epoch:
            random = np.random.default_rng([self.seed, epoch, COLUMNS])
            self._latest = epoch, random.uniform(-1, 1, (self.count, COLUMNS)).astype(np.float32)
        return self._latest[1]

    def _maps(self, drawn: np.ndarray) -> np.ndarray:
        """Where in the old image each point of the new one lies: x' = A x + b, as (B, 2, 3)."""
        strength = self.strength
        angle = drawn[:, 2] * math.radians(TURN) * strength
        zoom_x, zoom_y = (np.exp(drawn[:, column] * math.log1p(ZOOM) * strength) for column in (3, 4))
        mirrored = np.where(drawn[:, 7] > 0, -1.0, 1.0) if self.kind == "flip" else 1.0
        maps = np.empty((len(drawn), 2, 3), dtype=np.float32)
        maps[:, 0, 0], maps[:, 0, 1] = mirrored * zoom_x * np.cos(angle), -zoom_y * np.sin(angle)
        maps[:, 1, 0], maps[:, 1, 1] = mirrored * zoom_x * np.sin(angle), zoom_y * np.cos(angle)
        maps[:, :, 2] = drawn[:, :2] * 2 * SHIFT * strength  # sides are 2 long: from -1 to 1
        return maps


def warped(images: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """Images (B, H, W, C) resampled at A x + b, for maps (B, 2, 3) -> float32, by bilinear interpolation.

    Coordinates are x then y, -1 to 1 from edge to edge; outside an image its edge is repeated.
    """
    pixels = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()  # (B, C, H, W)
    places = F.affine_grid(torch.from_numpy(maps), list(pixels.shape), align_corners=False)  # (B, H, W, 2)
    sampled = F.grid_sample(pixels, places, mode="bilinear", padding_mode="border", align_corners=False)
    return sampled.permute(0, 2, 3, 1).numpy()


class ImageBatches(EpochBatches):
    """Images (N, H, W, 3) uint8 of one size, with a class each; each epoch reads all of them in a new order."""

    def __init__(
        self,
        train: Pixels | np.ndarray,
        train_targets: Sequence[int] | np.ndarray,
        validation: Pixels | np.ndarray,
        validation_targets: Sequence[int] | np.ndarray,
        how: ImagePreprocessor,
        size: int,
        seed: int,
        *,
        each: int,
        augmentation: Augmentation | None = None,
    ):
        """``size`` is the number of images in a batch, ``each`` the number of tokens that the model makes of one."""
        if size < 1:
            raise ValueError(f"size is {size}, expected 1 or more")
        self.train, self.train_targets = train, np.asarray(train_targets, dtype=np.int64)
        self.held_out, self.held_out_targets = validation, np.asarray(validation_targets, dtype=np.int64)
        self.how, self.size, self.seed, self.each = how, size, seed, each
        self.augmentation = augmentation

    def next(self, position: Position) -> tuple[Batch, Position]:
        """The images from number ``consumed`` of the epoch on."""
        index = self.at(position)
        images = self.train[index]
        if self.augmentation is not None:
            images = self.augmentation(images, position.epoch, index)
        return image_batch(images, self.train_targets[index], self.how, self.each), self.after(position)

    def validation(self) -> Iterator[Batch]:
        """Every held-out image once, as it is."""
        return image_batches(self.held_out, self.held_out_targets, self.how, 2 * self.size, self.each)

    def validation_batches(self) -> int:
        """How many batches ``validation`` gives."""
        return -(-len(self.held_out) // (2 * self.size))

    def order(self, epoch: int) -> list[np.ndarray]:
        """The numbers of the images in each batch of an epoch."""
        shuffled = np.random.default_rng([self.seed, epoch]).permutation(len(self.train))
        return np.split(shuffled, range(self.size, len(shuffled), self.size))


def image_batches(
    images: Pixels | np.ndarray, targets: np.ndarray, how: ImagePreprocessor, size: int, each: int
) -> Iterator[Batch]:
    """Every image once with its class, ``size`` at a time, in their order."""
    for at in range(0, len(images), size):
        part = slice(at, at + size)
        yield image_batch(images[part], targets[part], how, each)


def image_batch(images: np.ndarray, targets: np.ndarray, how: ImagePreprocessor, each: int) -> Batch:
    """Images (B, H, W, 3) uint8 with their classes (B,), each of which the model reads as so many tokens."""
    inputs = {"pixels": normalised(images, how)}
    return Batch(inputs, None, torch.from_numpy(targets), TargetKind.ROW, each)
