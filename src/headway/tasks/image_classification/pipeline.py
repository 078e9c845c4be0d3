"""Predict the class of an image."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.data.images.preprocessing import as_bytes, fitted, normalised, read_image
from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.models.transformer import Encoder
from headway.runtime.runtime import Output, Runtime
from headway.tasks.inputs import as_list
from headway.tasks.labels import label_answers

Image = str | Path | np.ndarray


def _is_image(image: object) -> bool:
    """Whether this is one image: an array of names, or one with four dimensions, is several."""
    is_array = isinstance(image, np.ndarray) and image.ndim < 4 and image.dtype.kind not in "OUT"
    return is_array or isinstance(image, str | Path)


class ImageClassifier:
    """A ViT with a classification head, what is done to images before it reads them, and the names of its classes."""

    task = "image_classification"
    tokenizer = None
    """It reads no text."""

    def __init__(self, model: Encoder, preprocessor: ImagePreprocessor, labels: Sequence[str]):
        self.model, self.preprocessor, self.labels = model, preprocessor, list(labels)
        self.runtime = Runtime(model)

    def __call__(self, image: Image | Iterable[Image]) -> Any:
        """{"label", "score", "scores"} of an image, or a list of them, in order.

        An image is the name of a file, or an array (H, W) or (H, W, 1 or 3) of bytes, or of numbers from 0 to 1; an
        array (N, H, W, 1 or 3) counts as a list.  ``scores`` has the probability of every class; they sum to one.
        Raises InputError for a file that is no image, and for an array of another kind.
        """
        images, alone = as_list(image, _is_image, "an image: the name of a file, or an array")
        results = label_answers(self.labels, self.probabilities(images))
        return results[0] if alone else results

    def probabilities(self, images: Sequence[Image]) -> Tensor:
        """(N, C) float32, rows in the order of the images."""

        def make(numbers: range) -> Tensor:
            pixels = [self.pixels(images[number], number) for number in numbers]
            return normalised(np.stack(pixels), self.preprocessor)  # (B, 3, H, W)

        def answer(output: Output, pixels: Tensor) -> Tensor:
            return output(pixels).float().softmax(dim=-1)

        found = self.runtime.read_equal(len(images), self.model.config.max_length, make, answer)
        return torch.stack(found) if found else torch.zeros(0, len(self.labels))

    def pixels(self, image: Image, number: int = 0) -> np.ndarray:
        """An image in the model's size, (H, W, 3) uint8; ``number`` is what an array is called in messages.

        Raises InputError for a file that is no image, and for an array of another kind or size.
        """
        if isinstance(image, str | Path):
            name = str(image)
            with warnings.catch_warnings(action="ignore"):
                array = read_image(image)
        elif isinstance(image, np.ndarray):
            name, array = f"image {number}", image
        else:
            raise InputError(f"image {number} is {type(image).__name__}; expected the name of a file, or an array.")
        try:
            found = fitted(as_bytes(array), self.preprocessor)
        except ValueError as error:
            raise InputError(f"{name}: {error}.") from None
        if found.shape[:2] != self.preprocessor.size:
            sizes = (" × ".join(map(str, size)) for size in (found.shape[:2], self.preprocessor.size))
            raise InputError("{}: is {} pixels, and the model reads {} without resizing.".format(name, *sizes))
        return found
