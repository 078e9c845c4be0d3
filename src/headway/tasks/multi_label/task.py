"""Several labels for each text: a probability for each label, and a threshold from which a text has it.

Letters: N texts, B texts of a batch, C labels.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from headway.data.open.columns import Detected
from headway.data.records.labels import Labelled
from headway.errors import InputError
from headway.formats.hf.loaders import pipeline_loader
from headway.hub.kept_entries import keep, kept
from headway.models.heads import Gives
from headway.tasks.answers import Labels
from headway.tasks.base import TextTask
from headway.tasks.baselines import linear_margins
from headway.tasks.checks import label_scores
from headway.tasks.label_sets import HALF, Lists, best_thresholds, set_scores, set_units
from headway.tasks.labels import continued_classes
from headway.tasks.losses import WholeLoss
from headway.tasks.multi_label.spec import SPEC
from headway.tasks.readers import LabelReader
from headway.tasks.rows_data import NumberData
from headway.tasks.task import TaskInputs
from headway.text.tokenizer import Tokenizer


class LabelSets(WholeLoss):
    """Binary cross-entropy, the mean over the labels; measured at ``thresholds`` (C,), or at the best ones."""

    def __init__(self, labels: Sequence[str], thresholds: np.ndarray | None = None):
        self.labels, self.thresholds = list(labels), thresholds

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), reduction="none").mean(dim=1)

    def measured(self, outputs: Tensor, targets: Tensor, each: list[np.ndarray] | None = None) -> dict[str, Any]:
        """val_loss and ``set_scores``; and by label the best ``thresholds``, where none are given."""
        scores, wanted = outputs.double().sigmoid().numpy(), targets.numpy().astype(np.int8)
        thresholds = best_thresholds(scores, wanted).clip(0, 1) if self.thresholds is None else self.thresholds
        metrics: dict[str, Any] = {"val_loss": float(self.losses(outputs, targets).mean())}
        if self.thresholds is None:
            metrics["thresholds"] = dict(zip(self.labels, thresholds.tolist(), strict=True))
        if each is not None:
            each.append(set_units(wanted, scores >= thresholds))
        return metrics | set_scores(wanted, scores, scores >= thresholds, self.labels)


class SetData(NumberData):
    """Texts with the labels of each."""

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        self.lists = Lists.of(rows.classes, given.found.label_columns)
        self.counts, how = self.lists.counts(rows), self.lists.how
        self.recorded = {"lists": how} if isinstance(how, str) else {}
        self.labels, self.new_head = continued_classes(given, list(self.counts), Gives.ROW, SPEC.problem)

    def guesses(self) -> dict[str, Any]:
        """The scores (N, C) of some models, and the labels that these give, bool (N, C)."""
        wanted, train, times = self.targets.astype(np.int8), self.parts.train, Counter[bytes]()
        rows = np.bincount(train.targets, minlength=len(train.classes))
        for labels, count in zip(self.lists.sets(train, self.labels), rows.tolist(), strict=True):
            times[labels.tobytes()] += count
        most = np.frombuffer(max(sorted(times), key=lambda labels: times[labels]), bool)
        usual = np.broadcast_to(most.astype(float), wanted.shape)
        none = np.zeros(wanted.shape, np.float32)
        guesses = {"no label": (none, none > 0), "most frequent labels": (usual, usual > 0)}
        for name, margins in self.linear_guess(linear_margins).items():
            guesses[name] = margins, margins >= best_thresholds(margins, wanted)
        return guesses

    def judged(self, guess: Any) -> tuple[dict[str, Any], np.ndarray]:
        wanted, (scores, chosen) = self.targets.astype(np.int8), guess
        metrics = set_scores(wanted, scores, chosen, self.labels)
        return {key: metrics[key] for key in metrics if key != "per_class"}, set_units(wanted, chosen)


class LabelSetReader(LabelReader[Labels]):
    """A classifier that gives each text the labels whose probability is at least their threshold.

    An answer is {"labels", "scores"}: the labels in the order of the model, and the probability of every label.  Of a
    long text the beginning is read, with a warning.  A text without a token that the model knows gets no label and no
    scores, with a warning; where it knows less than half of the tokens, ``known`` is their share.
    """

    def __init__(self, task: Any, directory: Path, parts: tuple[Any, Tokenizer, list[str]], facts: dict[str, Any]):
        super().__init__(task, directory, parts, facts)
        usual = dict.fromkeys(self.labels, HALF)
        named = facts.get("metrics", {}).get("thresholds") or kept(self.model, "thresholds") or usual
        fits = isinstance(named, dict) and set(named) == set(self.labels)
        if not fits or not all(isinstance(one, float | int) and 0 <= one <= 1 for one in named.values()):
            raise InputError(f"{directory}: thresholds must have a number from 0 to 1 for each of its labels.")
        self.thresholds = np.array([named[label] for label in self.labels], dtype=float)
        if named is not usual:
            keep(self.model, thresholds=named)  # so that they are in what is exported

    def named(self, scores: dict[str, float]) -> Labels:
        bounds = zip(self.labels, self.thresholds.tolist(), strict=True)
        return Labels(labels=[label for label, least in bounds if scores.get(label, -1.0) >= least], scores=scores)

    def kept_of(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        return outputs.float().double().sigmoid()


class MultiLabel(TextTask):
    """An encoder or a decoder with a number for each label."""

    spec = SPEC
    pipeline_tag = "text-classification"
    loader = pipeline_loader(pipeline_tag, label_scores, truncation=True)
    data, reader = SetData, LabelSetReader
    needs = "a table of texts with lists of labels, or with a column of 0 and 1 for each label"

    def measure(self, pipe: Any) -> LabelSets:
        return LabelSets(pipe.labels, getattr(pipe, "thresholds", None))

    def lists(self, written: Sequence[str], found: Detected, known: Any) -> Lists:
        """How the labels of a file are written: as in the run's own, unless columns are named."""
        return Lists.of(written, found.label_columns, getattr(known, "recorded", {}).get("lists"))

    def meant(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        lists = self.lists(rows.classes, found, known)
        return np.array([lists.labels(cell) is not None for cell in rows.classes], dtype=bool)

    def targets(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        return self.lists(rows.classes, found, known).sets(rows, known.labels)[rows.targets]

    def example(self, number: int, pipe: Any) -> str:
        return json.dumps([label for at, label in enumerate(pipe.labels) if (number + at) % 3 == 0])


TASK = MultiLabel()
