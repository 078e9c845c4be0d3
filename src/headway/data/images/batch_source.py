"""Batches of images, augmented in each epoch; which images and how depends only on the position.

What is done to an image is a function of (seed, epoch, number of the image), so that a run that is resumed sees
the same images.  There is no flip unless you ask for it: it turns a b into a d, and a right hand into a left one.

Letters: N images, B batch, H height, W width, C channels.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from headway.data.batches.batch_source import EpochBatches
from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.windows import Position
from headway.data.images.decode import Pixels
from headway.data.images.image_table import AUGMENT
from headway.data.images.preprocessing import normalised
from headway.hub.preprocessor import ImagePreprocessor

SHIFT, TURN, ZOOM, LIGHT = 0.125, 10.0, 0.15, 0.2
"""The maximum at strength 1: shift as a share of the side, rotation in degrees, change of size as a share (each side
by itself), and change of brightness and contrast as a share of the range."""
COLUMNS = 8
"""Numbers that are drawn for each image."""


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
    given = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()  # (B, C, H, W)
    places = F.affine_grid(torch.from_numpy(maps), list(given.shape), align_corners=False)  # (B, H, W, 2)
    found = F.grid_sample(given, places, mode="bilinear", padding_mode="border", align_corners=False)
    return found.permute(0, 2, 3, 1).numpy()


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
        self._latest: tuple[int, np.ndarray] | None = None

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

    def longest(self) -> tuple[Batch, Batch]:
        """The first of each: all are of one size, but the last."""
        return self.next(Position())[0], next(self.validation())

    def at(self, position: Position) -> np.ndarray:
        """The numbers of the images in a batch, in the order of the epoch."""
        if self._latest is None or self._latest[0] != position.epoch:
            random = np.random.default_rng([self.seed, position.epoch])
            self._latest = position.epoch, random.permutation(len(self.train))
        index = self._latest[1][position.consumed : position.consumed + self.size]
        if not len(index):
            raise ValueError(f"no batch begins at image {position.consumed} of an epoch; did the data change?")
        return index


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
