"""Classification of texts: one label for each.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from collections.abc import Hashable
from importlib import import_module
from pathlib import Path
from typing import Any

from headway.data.open.columns import Detected
from headway.data.records.label_typing import value_of
from headway.data.records.labels import Labelled
from headway.formats.hf.loaders import pipeline_loader
from headway.hub.directory import load_model
from headway.models.wirings import Ensemble
from headway.tasks.answers import Label
from headway.tasks.checks import Material, MaterialInputs, label_scores
from headway.tasks.classes import ClassTask
from headway.tasks.classification.spec import SPEC
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.readers import LabelReader, label_parts
from headway.training.options import TrainOptions
from headway.training.store.facts import check_files, read_facts


class Classifier(LabelReader[Label]):
    """An encoder or a decoder with a classification head, its tokenizer and the names of its labels.

    An answer is {"label", "score", "scores"}: ``scores`` has the probability of every label; they sum to one.  Of a
    text of more than ``max_length`` tokens the beginning is read, as in training and evaluation, with a warning.
    Without a token that the model knows, label and score are None and ``scores`` is empty, with a warning; where it
    knows less than half of the tokens, ``known`` is their share.
    """


class ClassificationTask(ClassTask):
    """An encoder or a decoder with a head for classes."""

    spec, reader = SPEC, Classifier
    pipeline_tag = "text-classification"
    loader = pipeline_loader(pipeline_tag, label_scores, truncation=True)

    @property
    def file(self) -> Any:
        """data.py"""
        return import_module("headway.tasks.classification.data")

    @property
    def data(self) -> Any:
        return self.file.ClassificationData

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Classifier:
        members = [directory / name for name in facts.get("members", [])]  # runs with other seeds (train --seeds)
        for path in members:
            check_files(path, read_facts(path))
        whole = Ensemble([load_model(path) for path in members]) if members else model
        return Classifier(self, directory, (whole, *label_parts(model, directory)), facts)

    def meaning(self, written: str) -> Hashable:
        return value_of(written)

    def held_out(self, pipe: Any, given: EvaluationInputs) -> Labelled:
        return self.file.held_out(pipe, given)

    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        return self.file.measure(pipe, given)

    def first_rows(self, source: Any, found: Detected, options: TrainOptions, given: MaterialInputs) -> Material:
        return self.file.first_rows(source, found, options, given)


TASK = ClassificationTask()
