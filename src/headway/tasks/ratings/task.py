"""Ratings: a class for each level of a scale, learnt and measured with the order of the levels.

Letters: N texts, B texts of a batch, K levels.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.examples import Examples
from headway.data.open.detected import Detected
from headway.data.records.labels import Labelled
from headway.errors import InputError
from headway.models.heads import Gives
from headway.tasks.answers import Label, Rating
from headway.tasks.base import TextTask
from headway.tasks.baselines import linear_numbers, most_frequent
from headway.tasks.checks import label_scores, pipeline_loader
from headway.tasks.labels import continued_classes, scores
from headway.tasks.losses import RowLoss, WholeLoss
from headway.tasks.ratings.recognise import IN_WORDS, level
from headway.tasks.ratings.spec import SPEC
from headway.tasks.readers import LabelReader
from headway.tasks.rows_data import NumberData
from headway.tasks.task import TaskInputs
from headway.training.plan import Plan

USUAL, FEW = frozenset({1.0, 2.0, 3.0, 4.0, 5.0}), 0.01
"""The levels of the usual scale, and the share of the rows up to which others beside all of them are mistakes."""
MEASURED = ("quadratic_kappa", "accuracy", "macro_f1")
"""The metrics of baselines."""


class OrderedLevels(WholeLoss):
    """Cross-entropy, and the squared distance between cumulated probabilities: a far miss costs more than a near one.

    The second part is the squared earth mover's distance (Hou, Yu and Samaras 2016).
    """

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        wanted = targets.long()
        reached = F.one_hot(wanted, outputs.shape[1]).cumsum(dim=1)  # (B, K): 1 from the level on
        moved = ((outputs.softmax(dim=1).cumsum(dim=1) - reached) ** 2).sum(dim=1)
        return F.cross_entropy(outputs, wanted, reduction="none") + moved

    def measured(self, outputs: Tensor, targets: Tensor, each: list[np.ndarray] | None = None) -> dict[str, Any]:
        """val_loss, accuracy, macro F1 and quadratic kappa."""
        guesses, wanted = outputs.argmax(dim=1).numpy(), targets.long().numpy()
        if each is not None:
            each.append(np.stack([guesses, wanted], axis=1).astype(np.float64))
        return {"val_loss": float(self.losses(outputs, targets).mean()), **self.scores(wanted, guesses)}

    def scores(self, targets: np.ndarray, guesses: np.ndarray) -> dict[str, Any]:
        """What is measured of predicted levels (N,), by their numbers, given the true ones (N,)."""
        levels = [level(label) for label in self.labels]
        return {"quadratic_kappa": quadratic_kappa(targets, guesses, levels), **scores(targets, guesses, self.labels)}


def quadratic_kappa(targets: np.ndarray, guesses: np.ndarray, levels: Sequence[float]) -> float | None:
    """Cohen's kappa, each miss weighted by its squared distance; None where all are one level."""
    values = np.array(levels)
    counts = np.zeros((len(values), len(values)))
    np.add.at(counts, (targets, guesses), 1)
    distances = (values[:, None] - values) ** 2
    expected = float((distances * np.outer(counts.sum(axis=1), counts.sum(axis=0))).sum()) / len(targets)
    return 1 - float((distances * counts).sum()) / expected if expected else None


class RatedData(NumberData):
    """Texts with a level each."""

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        values = np.array([level(cell) for cell in rows.classes])[rows.targets]
        levels, counts = np.unique(values, return_counts=True)
        if len(levels) < 2:
            raise InputError(f"{given.source.name}: column {given.found.label_column!r} holds one level only.")
        odd = ~np.isin(values, list(USUAL))
        if set(levels) > USUAL and odd.sum() <= FEW * len(values):
            places = given.source.places(rows.index[odd].tolist())  # type: ignore[union-attr]
            raise InputError(
                f"{given.source.name}: column {given.found.label_column!r} holds levels from 1 to 5, and others in few "
                f"rows ({places}). Correct or remove these, or use --task classification."
            )
        self.counts = {f"{value:g}": int(count) for value, count in zip(levels, counts, strict=True)}
        self.labels, self.new_head = continued_classes(given, list(self.counts), Gives.ROW)
        if np.isnan([level(label) for label in self.labels]).any():  # a base that has other classes too
            self.labels, self.new_head = list(self.counts), True

    def facts_of(self, rows: Labelled) -> dict[str, Any]:
        return {"classes": self.counts}

    def measure_baselines(self) -> None:
        wanted, learnt = self.targets.astype(int), self.train_targets.astype(int)
        guesses = {"most frequent level": np.full(len(wanted), most_frequent(learnt))}
        guesses["median level"] = np.full(len(wanted), int(np.median(learnt)))
        for name, numbers in self.linear_guess(linear_numbers).items():
            guesses[name] = numbers.round().clip(0, len(self.labels) - 1).astype(int)
        for name, guess in guesses.items():
            metrics = self.objective(None).scores(wanted, guess)
            self.baselines.append({"name": name, **{key: metrics[key] for key in MEASURED}})
            self.of_baselines[name] = np.stack([guess, wanted], axis=1).astype(np.float64)

    def objective(self, plan: Plan | None) -> OrderedLevels:
        return OrderedLevels(self.labels)


class Rater(LabelReader[Rating]):
    """A classifier of levels: {"label", "value", "scores"}, the likeliest level and the mean of all by their scores.

    Of a long text the beginning is read, with a warning.  Without a token that the model knows, label and value are
    None; where it knows less than half of the tokens, ``known`` is their share.
    """

    task = SPEC.name

    def named(self, answer: Label) -> Rating:
        mean = sum(level(label) * score for label, score in answer["scores"].items())
        rating = Rating(label=answer["label"], value=mean if answer["scores"] else None, scores=answer["scores"])
        return Rating(**rating, known=answer["known"]) if "known" in answer else rating


class Ratings(TextTask):
    """An encoder or a decoder with a class for each level."""

    spec = SPEC
    pipeline_tag = "text-classification"
    loader = pipeline_loader(pipeline_tag, label_scores, truncation=True)
    needs = "a table of texts with a level each"
    data, reader = RatedData, Rater

    def measure(self, pipe: Rater) -> OrderedLevels:
        return OrderedLevels(pipe.labels)

    def meant(self, written: Sequence[str], found: Detected, known: Any = None) -> np.ndarray:
        worded = [one for cell in written if (one := IN_WORDS.fullmatch(cell.strip().casefold()))]
        if len({one[3] for one in worded} - {None}) > 1:
            raise ValueError("ratings are out of 5 and out of 10; write all out of one of these")
        return ~np.isnan([level(cell) for cell in written])

    def targets(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        """The number of each row's level, float32 (N,).  Raises InputError for one that the model does not know."""
        number_of = {level(label): number for number, label in enumerate(known.labels)}
        numbers = np.array([number_of.get(level(cell), -1) for cell in rows.classes], dtype=np.float32)[rows.targets]
        if (numbers < 0).any():
            strange = rows.classes[rows.targets[int(numbers.argmin())]]
            raise InputError(f"{rows.name}: the level {strange!r} is none of the model's ({', '.join(known.labels)}).")
        return numbers

    def sample_batch(self, pipe: Rater, inputs: list[Any], targets: list[list[int]]) -> tuple[RowLoss, Batch]:
        levels = (np.arange(len(inputs)) % len(pipe.labels)).astype(np.float32)
        return self.measure(pipe), Examples(inputs, levels, TargetKind.ROW).together()

    def example(self, number: int, pipe: Rater) -> str:
        return str(pipe.labels[number % len(pipe.labels)])


TASK = Ratings()
