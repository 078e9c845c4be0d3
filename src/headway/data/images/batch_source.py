"""Batches of images, augmented in each epoch; which images and how depends only on the position.

Letters: N images, B batch, H height, W width.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.windows import Position
from headway.data.images.augment import Augmentation
from headway.data.images.pixels import Pixels
from headway.data.images.preprocessing import normalised
from headway.hub.preprocessor import ImagePreprocessor


class ImageBatches:
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
        index = self._at(position)
        images = self.train[index]
        if self.augmentation is not None:
            images = self.augmentation(images, position.epoch, index)
        return image_batch(images, self.train_targets[index], self.how, self.each), self.after(position)

    def after(self, position: Position) -> Position:
        """The position after the batch at a position, without making the batch."""
        consumed = position.consumed + len(self._at(position))
        return Position(position.epoch + 1) if consumed >= len(self.train) else Position(position.epoch, consumed)

    def examples(self, position: Position) -> list[int]:
        """The numbers of the images in the batch at a position."""
        return self._at(position).tolist()

    def validation(self) -> Iterator[Batch]:
        """Every held-out image once, as it is."""
        return image_batches(self.held_out, self.held_out_targets, self.how, 2 * self.size, self.each)

    def validation_batches(self) -> int:
        """How many batches ``validation`` gives."""
        return -(-len(self.held_out) // (2 * self.size))

    def validation_order(self) -> np.ndarray | None:
        """Images come in their own order."""
        return None

    def epochs(self, position: Position) -> float:
        """How many epochs of the images have been read."""
        return position.epoch + position.consumed / len(self.train)

    def longest(self) -> tuple[Batch, Batch]:
        """The first of each: all are of one size, but the last."""
        return self.next(Position())[0], next(self.validation())

    def _at(self, position: Position) -> np.ndarray:
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
