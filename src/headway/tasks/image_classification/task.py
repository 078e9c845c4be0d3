"""Classification of images: a ViT with a head for classes.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from torch import Tensor

from headway.data.batches.batching import Batch, TargetKind
from headway.data.images.image_table import IMAGE
from headway.data.images.preprocessing import as_bytes, fitted, normalised, read_image
from headway.data.open.columns import Detected
from headway.data.records.split import few
from headway.errors import InputError
from headway.formats.hf.loaders import Original, pipeline_loader
from headway.hub.preprocessor import FILE as PREPROCESSOR
from headway.hub.preprocessor import ImagePreprocessor, preprocessor_of
from headway.models.heads import n_outputs
from headway.models.transformer import Encoder
from headway.runtime.runtime import Output, Runtime
from headway.tasks.answers import Label
from headway.tasks.checks import ROWS, Found, Material, MaterialInputs, labels_differ
from headway.tasks.image_classification.spec import SPEC
from headway.tasks.inputs import as_list
from headway.tasks.labels import label_answers, labels_of
from headway.tasks.losses import Classification
from headway.tasks.task import FolderTask
from headway.training.objective import Objective
from headway.training.options import TrainOptions

if TYPE_CHECKING:
    from headway.tasks.inspection import Inside


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

    @overload
    def __call__(self, image: Image) -> Label: ...  # type: ignore[overload-overlap]  # a str is an Iterable[str]

    @overload
    def __call__(self, image: Iterable[Image]) -> list[Label]: ...

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


class ImageClassificationTask(FolderTask):
    """An encoder of patches with a head for classes."""

    spec = SPEC
    pipeline_tag = "image-classification"
    loader = pipeline_loader(pipeline_tag, images)

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> ImageClassifier:
        labels = labels_of(directory, n_outputs(model))
        if not (directory / PREPROCESSOR).exists():
            raise InputError(
                f"{directory}: is an image model without {PREPROCESSOR}, which says how to prepare images that it "
                "reads. From Python, `headway.load_model` gives the model."
            )
        return ImageClassifier(model, preprocessor_of(model, directory), labels)

    def some_inputs(self, source: Any, found: Detected, count: int) -> list[Any]:
        return few(source.column(IMAGE) if source.arrays is None else source.arrays, count)

    def inspect(self, pipe: Any, given: Any, target: str | None) -> "Inside":
        """The tokens are patches, named by row and column, after one for all."""
        from headway.tasks.inspection import check_no_target, look

        check_no_target(pipe, target)
        pixels = pipe.pixels(given)  # (H, W, 3)
        height, width = pipe.model.stack.embedding.patch_size
        rows, columns = pixels.shape[0] // height, pixels.shape[1] // width
        cut = pixels[: rows * height, : columns * width].reshape(rows, height, columns, width, 3).swapaxes(1, 2)
        names = ["[CLS]", *(f"r{row + 1} c{column + 1}" for row in range(rows) for column in range(columns))]
        inputs = [normalised(pixels[None], pipe.preprocessor).to(pipe.runtime.device)]
        return look(pipe.task, pipe.model, inputs, {"picture": names}, patches=cut)

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        classes = torch.arange(len(inputs)) % len(pipe.labels)
        pixels, patches = {"pixels": torch.stack(inputs)}, pipe.model.config.max_length
        return Classification(pipe.labels), Batch(pixels, None, classes, TargetKind.ROW, patches)

    def processor(self, pipe: ImageClassifier) -> ImagePreprocessor:
        return pipe.preprocessor

    def first_rows(self, source: Any, found: Detected, options: TrainOptions, given: MaterialInputs) -> None:
        return None  # what is learnt from images in a few steps does not matter

    def synthetic_data(self, pipe: Any, given: MaterialInputs) -> Material:
        """Random images in the size that the model reads, with its own classes in turn."""
        labels = (pipe.labels * ROWS)[: max(ROWS, 2 * len(pipe.labels))]
        draw = np.random.default_rng(0)
        images = draw.integers(0, 256, (len(labels), *pipe.preprocessor.size, 3), dtype=np.uint8)
        file = given.folder / "made-up.npz"
        np.savez(file, images=images, labels=np.array(labels))
        return Material(file, origin="made-up images")


TASK = ImageClassificationTask()
