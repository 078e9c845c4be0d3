"""Another program that classifies images gives the same labels with the same probabilities."""

from typing import Any

import numpy as np

from headway.tasks.common.compare_answers import Found, Original, labels_differ
from headway.tasks.common.external_loader import pipeline_loader


def images(original: Original, theirs: Any) -> Found:
    """The label of each image and the probability of every label.

    Images are random here, in the size that the model reads and in others.
    """
    from PIL import Image

    height, width = original.pipe.preprocessor.size
    draw = np.random.default_rng(0)
    sizes = [(height, width)] + ([(height + 7, 2 * width + 3)] if original.pipe.preprocessor.do_resize else [])
    made = [draw.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes for _ in range(8)]
    found = theirs([Image.fromarray(array) for array in made], top_k=len(original.pipe.labels))
    names = [f"image {number}" for number in range(len(made))]
    return labels_differ(original, original.pipe.probabilities(made), found, names)


LOADER = pipeline_loader("image-classification", images)
