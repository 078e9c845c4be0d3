"""Data augmentation of images: shift, rotation, scale, brightness and contrast.

What is done to an image is a function of (seed, epoch, number of the image), so that a run that is resumed sees
the same images.  There is no flip unless you ask for it: it turns a b into a d, and a right hand into a left one.

Letters: B batch, H height, W width, C channels.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

from headway.data.images.image_table import AUGMENT

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
