"""Classification of texts: one label for each.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from pathlib import Path
from typing import Any

import numpy as np

from headway.data.batches.batching import Batch, Examples, TargetKind
from headway.formats.hf.loaders import pipeline_loader
from headway.hub.directory import load_model
from headway.models.adapt.ensemble import Ensemble
from headway.tasks.answers import Label
from headway.tasks.checks import Material, MaterialInputs, label_scores
from headway.tasks.classification.spec import SPEC
from headway.tasks.labels import Classification
from headway.tasks.readers import LabelReader, label_parts
from headway.tasks.task import FolderTask
from headway.training.objective import Objective
from headway.training.store.facts import check_files, read_facts


class Classifier(LabelReader[Label]):
    """An encoder or a decoder with a classification head, its tokenizer and the names of its labels.

    An answer is {"label", "score", "scores"}: ``scores`` has the probability of every label; they sum to one.  Of a
    text of more than ``max_length`` tokens the beginning is read, as in training and evaluation, with a warning.
    Without a token that the model knows, label and score are None and ``scores`` is empty, with a warning; where it
    knows less than half of the tokens, ``known`` is their share.
    """

    task = "classification"


class ClassificationTask(FolderTask):
    """An encoder or a decoder with a head for classes."""

    spec = SPEC
    pipeline_tag = "text-classification"
    loader = pipeline_loader(pipeline_tag, label_scores, truncation=True)

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Classifier:
        members = _members(directory, facts)
        whole = Ensemble([load_model(path) for path in members]) if members else model
        return Classifier(whole, *label_parts(model, directory), facts.get("plan", {}).get("length"))

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        examples = Examples(inputs, np.arange(len(inputs)) % len(pipe.labels), TargetKind.ROW)
        return Classification(pipe.labels), examples.together()

    def synthetic_data(self, pipe: Any, given: MaterialInputs) -> Material:
        from headway.tasks.checks import synthetic_table

        labels = pipe.labels
        return synthetic_table(
            pipe, given.folder, lambda n, text, _: {"text_column": text, "label_column": labels[n % len(labels)]}
        )


def _members(directory: Path, facts: dict[str, Any]) -> list[Path]:
    """The runs with other seeds whose answers are averaged (``train --seeds``), if this is a run of that kind."""
    names = facts.get("members", [])
    for name in names:
        check_files(directory / name, read_facts(directory / name))
    return [directory / name for name in names]


TASK = ClassificationTask()
