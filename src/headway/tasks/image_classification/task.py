"""Classification of images: a ViT with a head for classes.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.data.batches.batching import Batch, TargetKind
from headway.data.images.image_table import IMAGE
from headway.data.images.preprocessing import normalised
from headway.data.open.detected import Detected
from headway.data.records.sample import few
from headway.errors import InputError
from headway.hub.preprocessor import FILE as PREPROCESSOR
from headway.hub.preprocessor import ImagePreprocessor, preprocessor_of
from headway.models.heads import n_outputs
from headway.tasks.checks import ROWS, Found, Material, MaterialInputs, Original, labels_differ, pipeline_loader
from headway.tasks.image_classification.pipeline import ImageClassifier
from headway.tasks.image_classification.spec import SPEC
from headway.tasks.inside import Inside
from headway.tasks.labels import Classification, labels_of
from headway.tasks.task import FolderTask
from headway.training.objective import Objective
from headway.training.options import TrainOptions


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

    def comparable(self, pipe: Any, inputs: Sequence[Any]) -> list[Any]:
        return [found["label"] for found in pipe(list(inputs))]

    def inspect(self, pipe: Any, given: Any, target: str | None) -> Inside:
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

    def trial(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        classes = torch.arange(len(inputs)) % len(pipe.labels)
        pixels, patches = {"pixels": torch.stack(inputs)}, pipe.model.config.max_length
        return Classification(pipe.labels), Batch(pixels, None, classes, TargetKind.ROW, patches)

    def processor(self, pipe: ImageClassifier) -> ImagePreprocessor:
        return pipe.preprocessor

    def beginning(self, source: Any, found: Detected, options: TrainOptions, given: MaterialInputs) -> None:
        return None  # what is learnt from images in a few steps does not matter

    def made_up(self, pipe: Any, given: MaterialInputs) -> Material:
        """Random images in the size that the model reads, with its own classes in turn."""
        labels = (pipe.labels * ROWS)[: max(ROWS, 2 * len(pipe.labels))]
        draw = np.random.default_rng(0)
        images = draw.integers(0, 256, (len(labels), *pipe.preprocessor.size, 3), dtype=np.uint8)
        file = given.folder / "made-up.npz"
        np.savez(file, images=images, labels=np.array(labels))
        return Material(file, origin="made-up images")


TASK = ImageClassificationTask()
