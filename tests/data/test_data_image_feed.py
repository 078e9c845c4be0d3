"""Batches of images are a function of the position alone, and augmentation is what a slow oracle does."""

import math

import numpy as np
import pytest
import torch

from headway.data.batches.batch_source import Position
from headway.data.images.batch_source import SHIFT, Augmentation, ImageBatches, image_batches, warped
from headway.data.images.preprocessing import preprocess
from headway.hub.preprocessor import ImagePreprocessor

HOW = ImagePreprocessor(size=(7, 5), mean=(0.5, 0.4, 0.3))
DRAW = np.random.default_rng(0)
TRAIN = DRAW.integers(0, 256, (23, 7, 5, 3), dtype=np.uint8)
HELD_OUT = DRAW.integers(0, 256, (11, 7, 5, 3), dtype=np.uint8)
TARGETS = list(range(23))


def batch_source(kind: str = "usual", size: int = 4, seed: int = 3) -> ImageBatches:
    augmentation = Augmentation(kind, len(TRAIN), seed)
    return ImageBatches(TRAIN, TARGETS, HELD_OUT, range(11), HOW, size, seed, each=6, augmentation=augmentation)


def passes(one: ImageBatches, count: int) -> dict[tuple[int, int], torch.Tensor]:
    """By epoch and number, what each image was."""
    found, position = {}, Position()
    while position.epoch < count:
        batch, after = one.next(position)
        assert batch.targets.tolist() == one.examples(position) and after == one.after(position)
        assert batch.tokens == batch.places == 6 * len(batch) and batch.lengths.tolist() == [6] * len(batch)
        found |= {
            (position.epoch, number): row
            for number, row in zip(batch.targets.tolist(), batch.inputs["pixels"], strict=True)
        }
        position = after
    return found


def test_an_image_is_changed_by_seed_pass_and_number_alone():
    found = passes(batch_source(), 3)
    assert set(found) == {(epoch, number) for epoch in range(3) for number in range(23)}
    for other in (passes(batch_source(size=7), 3), passes(batch_source(), 3)):
        assert all(torch.equal(found[place], other[place]) for place in found)
    assert not torch.equal(found[0, 5], found[1, 5]) and not torch.equal(
        found[0, 5], passes(batch_source(seed=4), 1)[0, 5]
    )
    later = batch_source().next(Position(2, 8))[0]  # as a run that is taken up asks first
    assert all(
        torch.equal(row, found[2, n]) for n, row in zip(later.targets.tolist(), later.inputs["pixels"], strict=True)
    )
    orders = [batch_source().examples(Position(epoch)) for epoch in range(3)]
    assert orders[0] != orders[1] != orders[2]


def test_unchanged_and_held_out_images_are_what_the_model_reads():
    plain = passes(batch_source("none"), 1)
    expected = preprocess(list(TRAIN), HOW)
    assert all(torch.equal(plain[0, number], expected[number]) for number in range(23))
    batches = list(batch_source().validation())
    assert [len(batch) for batch in batches] == [8, 3] and batch_source().validation_batches() == 2
    assert torch.equal(torch.cat([batch.inputs["pixels"] for batch in batches]), preprocess(list(HELD_OUT), HOW))
    assert torch.cat([batch.targets for batch in batches]).tolist() == list(range(11))
    longest, held_out = batch_source().longest()
    assert len(longest) == 4 and len(held_out) == 8
    part = longest.rows(torch.tensor([2, 0])).to("cpu")
    assert torch.equal(part.inputs["pixels"], longest.inputs["pixels"][[2, 0]]) and part.patches == 6
    assert batch_source().epochs(Position(2, 23)) == 3
    assert len(list(image_batches(HELD_OUT, np.arange(11), HOW, 5, 6))) == 3
    with pytest.raises(ValueError, match="no batch begins at example 23"):
        batch_source().next(Position(0, 23))


def slow(image: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """One image (H, W, C) read at A x + b, point by point."""
    height, width, _ = image.shape
    found = np.zeros(image.shape)
    for row in range(height):
        for column in range(width):
            point = np.array([(2 * column + 1) / width - 1, (2 * row + 1) / height - 1, 1.0])
            x, y = matrix @ point
            x, y = ((x + 1) * width - 1) / 2, ((y + 1) * height - 1) / 2
            x, y = min(max(x, 0), width - 1), min(max(y, 0), height - 1)
            left, top = min(int(x), max(width - 2, 0)), min(int(y), max(height - 2, 0))
            a, b = x - left, y - top
            upper = image[top, left] * (1 - a) + image[top, left + 1] * a
            lower = image[top + 1, left] * (1 - a) + image[top + 1, left + 1] * a
            found[row, column] = upper * (1 - b) + lower * b
    return found


def test_warped_images_are_the_oracles():
    maps = np.random.default_rng(1).normal(0, 0.3, (23, 2, 3)).astype(np.float32) + np.eye(2, 3, dtype=np.float32)
    found = warped(TRAIN, maps)
    expected = np.stack([slow(image, matrix) for image, matrix in zip(TRAIN, maps, strict=True)])
    assert found.dtype == np.float32 and np.abs(found - expected).max() < 0.01


def test_by_hand():
    """A shift of a whole pixel moves the columns; a flip mirrors them; strength 0 does nothing."""
    shift = np.array([[[1, 0, 2 / 5], [0, 1, 0]]], dtype=np.float32)
    assert np.allclose(warped(TRAIN[:1], shift)[0, :, :-1], TRAIN[0, :, 1:], atol=1e-3)
    still = Augmentation("usual", 23, 0, strength=0.0)(TRAIN, 0, np.arange(23))
    assert np.allclose(still, TRAIN, atol=1e-3)
    flips = Augmentation("flip", 23, 0, strength=0.0)(TRAIN, 0, np.arange(23))
    mirrored = [np.allclose(one, image[:, ::-1], atol=1e-3) for one, image in zip(flips, TRAIN, strict=True)]
    unchanged = [np.allclose(one, image, atol=1e-3) for one, image in zip(flips, TRAIN, strict=True)]
    assert 4 < sum(mirrored) < 19 and all(a != b for a, b in zip(mirrored, unchanged, strict=True))


def test_what_is_done_stays_within_its_bounds():
    one = Augmentation("usual", 997, 0)
    maps = one._maps(one._drawn(0))
    assert np.abs(maps[:, :, 2]).max() <= 2 * SHIFT and np.abs(maps[:, :, 2]).max() > 1.9 * SHIFT
    turns = np.degrees(np.arctan2(maps[:, 1, 0], maps[:, 0, 0]))
    assert 9 < turns.max() <= 10.001 and -10.001 <= turns.min() < -9
    zooms = np.hypot(maps[:, 0, 0], maps[:, 1, 0])
    assert 1.14 < zooms.max() <= 1.1501 and math.isclose(zooms.min(), 1 / 1.15, rel_tol=0.01)
    images = one(TRAIN[:5], 7, np.arange(5))
    assert images.min() >= 0 and images.max() <= 255
    with pytest.raises(ValueError, match="augmentation is 'more', but must be none, usual, flip"):
        Augmentation("more", 5, 0)
