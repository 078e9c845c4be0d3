"""What a model of images attends to: its tokens are patches, named by row and column, behind one for all."""

from typing import Any

from headway.data.images.preprocessing import normalised
from headway.tasks.common.inside import Inside
from headway.tasks.common.inspection import check_no_target, look
from headway.tasks.image_classification.pipeline import Image, ImageClassifier


def inspect(pipe: ImageClassifier, image: Image, target: str | None) -> Inside:
    """The attention on an image.  Raises InputError for what is no image, and for a target."""
    check_no_target(pipe, target)
    pixels = pipe.pixels(image)  # (H, W, 3)
    embedding: Any = pipe.model.stack.embedding
    height, width = embedding.patch_size
    rows, columns = pixels.shape[0] // height, pixels.shape[1] // width
    cut = pixels[: rows * height, : columns * width].reshape(rows, height, columns, width, 3).swapaxes(1, 2)
    names = ["[CLS]", *(f"r{row + 1} c{column + 1}" for row in range(rows) for column in range(columns))]
    inputs = [normalised(pixels[None], pipe.preprocessor).to(pipe.runtime.device)]
    return look(pipe.task, pipe.model, inputs, {"picture": names}, patches=cut)
