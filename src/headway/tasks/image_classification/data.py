"""Predict the class of an image."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from torch import nn

from headway.data.images.batch_source import Augmentation, Decoded, ImageBatches, decoded, image_batches
from headway.data.images.image_table import ImageTable
from headway.data.records.label_typing import apart, composed
from headway.data.records.split import few
from headway.errors import InputError
from headway.hub.fine_tune import for_classification
from headway.hub.preprocessor import ImagePreprocessor
from headway.io.quantities import size
from headway.models.heads import ClassificationHead, Gives
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.tasks.baselines import image_baselines
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.image_classification.task import ImageClassifier
from headway.tasks.labels import continued_classes
from headway.tasks.losses import Classification, balanced_weights
from headway.tasks.rows_data import RowsData
from headway.tasks.task import TaskInputs
from headway.training.base import Base, prepared_base
from headway.training.objective import Objective
from headway.training.plan import Plan
from headway.training.sizing.vit import cut_of, fine_tune_vit_plan, vit_plan

POSITION_STD = 1.0
"""Initial standard deviation of positions and the class token.  A patch's vector has entries of about 1 from the first
step on: compared with them, the usual 0.02 carries no information on the position until it has grown."""


class ImageData(RowsData):
    """A ViT, from scratch or from a base, on images with a class each."""

    unit = "images"
    held_out_by = "10 %, classes kept, duplicates on one side"

    def checked(self, base: Base) -> Base:
        return base

    def read(self, given: TaskInputs) -> tuple[Decoded, Decoded | None]:
        source, held_out, other = cast(ImageTable, given.source), given.held_out, None
        self.source = source
        if self.base is None:
            self.patches = cut_of(source, self.options)
            self.how = ImagePreprocessor(size=self.patches.image_size)
        else:
            self.patches, self.how = self.base.model.patches, self.base.preprocessor  # type: ignore[assignment]
        found = decoded(source, self.how)
        self.labels, self.new_head = continued_classes(given, sorted(set(found.labels)), Gives.ROW)
        if isinstance(held_out, ImageTable):
            other = decoded(held_out, self.how)
            check_known(other.labels, self.labels, held_out.name)
        self.counts = dict(sorted(Counter(found.labels).items()))
        self.recorded = {"held_in_memory": size(sum(one.pixels.held for one in (found, other) if one is not None))}
        return found, other

    def learn_vocabulary(self, given: TaskInputs, rows: Decoded) -> dict[str, Any]:
        return {}

    def encode(self, train: Decoded, held_out: Decoded) -> None:
        self.train, self.validation = train.pixels, held_out.pixels
        self.train_targets, self.targets = (part.numbered(self.labels).astype(np.int64) for part in (train, held_out))

    def measure_baselines(self) -> None:
        args = self.train, self.train_targets, self.validation, self.targets, self.labels
        self.baselines, sampled = image_baselines(*args, self.of_baselines)
        self.warnings += [sampled] if sampled else []

    @property
    def processor(self) -> ImagePreprocessor:
        return self.how

    def plan(self, seconds: float | None) -> Plan:
        if self.base is not None:
            plan = fine_tune_vit_plan(self.options, self.base.config, self.patches, len(self.train))
            return self.with_head_decision(plan)
        return vit_plan(self.options, self.patches, self.source, len(self.train))

    def build(self, plan: Plan) -> nn.Module:
        if self.base is not None:
            base: Any = self.base.model
            if self.new_head:
                for_classification(base, len(self.labels), seed=plan.seed)
            return prepared_base(base, plan)
        head = ClassificationHead(plan.config, len(self.labels), pooling="first", dense=False)
        model = Encoder(plan.config, head, patches=plan.cut)
        return initialise(model, plan.seed, embedding_std=POSITION_STD)

    def batch_source(self, plan: Plan) -> ImageBatches:
        if plan.cut.image_size != self.how.size:
            raise InputError(
                f"{self.source.name}: the run has images of another size; use another --out to start over."
            )
        parts = self.train, self.train_targets, self.validation, self.targets
        size = max(1, plan.batch_tokens // plan.length)
        size = size if plan.batch_size is None else min(size, plan.batch_size)
        augmentation = Augmentation(plan.objective.augment, len(self.train), plan.seed)
        return ImageBatches(*parts, self.how, size, plan.seed, each=plan.length, augmentation=augmentation)

    def objective(self, plan: Plan) -> Objective:
        weights = balanced_weights(self.train_targets, len(self.labels)) if self.options.for_tasks.balance else None
        return Classification(self.labels, weights=weights, label_smoothing=plan.objective.label_smoothing)


def check_known(labels: Sequence[str], known: Sequence[str], name: str) -> None:
    """Raise InputError for classes that are not known."""
    if strange := sorted(set(labels) - set(known)):
        shown = ", ".join(repr(one) + apart(one, known) for one in strange[:5]) + ", ..." * (len(strange) > 5)
        of_these = ", ".join(map(repr, known[:10])) + ", ..." * (len(known) > 10)
        raise InputError(f"{name}: has classes that are not in the training data: {shown}; known: {of_these}.")


open_data = ImageData


def measure(pipe: ImageClassifier, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the images that were counted: as they are, in the model's size."""
    found = _held_out(pipe, given)
    found = given.sampled(found)
    each = pipe.model.config.max_length
    size = max(1, pipe.runtime.tokens // each)
    targets = found.numbered(list(map(composed, pipe.labels))).astype(np.int64)
    batches = image_batches(found.pixels, targets, pipe.preprocessor, size, each)
    metrics = Classification(pipe.labels).evaluate(pipe.model, pipe.runtime.batches(batches), given.each)
    return {**metrics, "examples": len(found)}


def held_out_inputs(pipe: ImageClassifier, given: EvaluationInputs, count: int) -> list[np.ndarray]:
    """Some images that are held out, in the model's size."""
    return few(_held_out(pipe, given).pixels, count)


def _held_out(pipe: ImageClassifier, given: EvaluationInputs) -> Decoded:
    """The images to measure.  Raises InputError for what are no images, and for unknown classes."""
    images = given.source_as(ImageTable, "an image classifier is measured on images")
    found = decoded(images, pipe.preprocessor)
    check_known(found.labels, list(map(composed, pipe.labels)), given.source.name)
    return given.held_out(found)
