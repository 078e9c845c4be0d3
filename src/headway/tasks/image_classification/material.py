"""Small data for a few steps of training on images."""

from pathlib import Path

import numpy as np

from headway.tasks.common.material import ROWS, Material
from headway.tasks.image_classification.pipeline import ImageClassifier


def made_up(pipe: ImageClassifier, folder: Path) -> Material:
    """Random images in the size that the model reads, with its own classes in turn."""
    labels = (pipe.labels * ROWS)[: max(ROWS, 2 * len(pipe.labels))]
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (len(labels), *pipe.preprocessor.size, 3), dtype=np.uint8)
    file = folder / "made-up.npz"
    np.savez(file, images=images, labels=np.array(labels))
    return Material(file, origin="made-up images")
