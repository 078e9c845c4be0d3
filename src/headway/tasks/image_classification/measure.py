"""An image classifier is measured as its training measured it."""

from typing import Any

import numpy as np

from headway.data.images.batch_source import image_batches
from headway.data.images.decode import Decoded, decoded
from headway.data.images.image_table import ImageTable
from headway.data.records.label_typing import composed
from headway.data.records.sample import few
from headway.errors import InputError
from headway.tasks.common.classes import Classification
from headway.tasks.image_classification.data import check_known
from headway.tasks.image_classification.pipeline import ImageClassifier
from headway.tasks.task import EvaluationInputs


def measure(pipe: ImageClassifier, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the images that were counted: as they are, in the model's size."""
    found = _held_out(pipe, given)
    found = given.sampled(found)
    each = pipe.model.config.max_length
    size = max(1, pipe.runtime.tokens // each)
    batches = image_batches(
        found.pixels, found.targets(list(map(composed, pipe.labels))), pipe.preprocessor, size, each
    )
    metrics = Classification(pipe.labels).evaluate(pipe.model, pipe.runtime.batches(batches), given.each)
    return {**metrics, "examples": len(found)}


def held_out_inputs(pipe: ImageClassifier, given: EvaluationInputs, count: int) -> list[np.ndarray]:
    """Some images that are held out, in the model's size."""
    return few(_held_out(pipe, given).pixels, count)


def _held_out(pipe: ImageClassifier, given: EvaluationInputs) -> Decoded:
    """The images to measure.  Raises InputError for what are no images, and for unknown classes."""
    if not isinstance(given.source, ImageTable):
        raise InputError(f"{given.source.name}: an image classifier is measured on images.")
    found = decoded(given.source, pipe.preprocessor)
    check_known(found.labels, list(map(composed, pipe.labels)), given.source.name)
    return given.held_out(found)  # type: ignore[no-any-return]
