"""Ratings: a class for each level of a scale, learnt and measured with the order of the levels.

Letters: N texts, B texts of a batch, K levels.
"""

import math
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from headway.data.open.columns import Detected
from headway.data.records.labels import Labelled
from headway.errors import InputError
from headway.formats.hf.loaders import pipeline_loader
from headway.models.heads import Gives
from headway.tasks.answers import Rating
from headway.tasks.baselines import linear_numbers, most_frequent
from headway.tasks.checks import label_scores
from headway.tasks.classes import ClassData, Classes, ClassTask
from headway.tasks.labels import continued_classes, likeliest
from headway.tasks.ratings.recognise import IN_WORDS, level
from headway.tasks.ratings.spec import SPEC
from headway.tasks.readers import LabelReader
from headway.tasks.task import TaskInputs
from headway.training.evaluation.intervals import quadratic_kappa

USUAL, FEW = frozenset({1.0, 2.0, 3.0, 4.0, 5.0}), 0.01
"""The levels of the usual scale, and the share of the rows up to which others beside all of them are mistakes."""


class OrderedLevels(Classes):
    """Cross-entropy, and the squared distance between cumulated probabilities: a far miss costs more than a near one.

    The second part is the squared earth mover's distance (Hou, Yu and Samaras 2016).
    """

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        wanted = targets.long()
        reached = F.one_hot(wanted, outputs.shape[1]).cumsum(dim=1)  # (B, K): 1 from the level on
        moved = ((outputs.softmax(dim=1).cumsum(dim=1) - reached) ** 2).sum(dim=1)
        return super().losses(outputs, wanted) + moved

    def scores(self, targets: np.ndarray, guesses: np.ndarray) -> dict[str, Any]:
        levels = [level(label) for label in self.labels]
        return {"quadratic_kappa": quadratic_kappa(targets, guesses, levels), **super().scores(targets, guesses)}


def out_of(rows: Labelled) -> int | None:
    """The greatest level, where cells say it (4/5).  Raises ValueError where they say two."""
    worded = (IN_WORDS.fullmatch(cell.strip().casefold()) for cell in rows.classes)
    maxima = sorted({int(one[3]) for one in worded if one and one[3]})
    if len(maxima) > 1:
        raise ValueError(f"ratings are out of {maxima[0]} and out of {maxima[1]}; write all out of one of these")
    return maxima[0] if maxima else None


class RatedData(ClassData):
    """Texts with a level each."""

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        self.recorded = {"out_of": most} if (most := out_of(rows)) else {}
        values = np.array([level(cell) for cell in rows.classes])[rows.targets]
        levels, counts = np.unique(values, return_counts=True)
        if len(levels) < 2:
            raise InputError(f"{given.source.name}: column {given.found.label_column!r} holds one level only.")
        self.counts = {f"{value:g}": int(count) for value, count in zip(levels, counts, strict=True)}
        self.labels, self.new_head = continued_classes(given, list(self.counts), Gives.ROW)
        if np.isnan([level(label) for label in self.labels]).any():  # a base that has other classes too
            self.labels, self.new_head = list(self.counts), True

    def guesses(self) -> dict[str, np.ndarray]:
        count, learnt = len(self.targets), self.train_targets.astype(int)
        middles = {"most frequent level": most_frequent(learnt), "median level": int(np.median(learnt))}
        guesses = {name: np.full(count, middle) for name, middle in middles.items()}
        for name, numbers in self.linear_guess(linear_numbers).items():
            guesses[name] = numbers.round().clip(0, len(self.labels) - 1).astype(int)
        return guesses


class Rater(LabelReader[Rating]):
    """A classifier of levels: {"label", "value", "scores"}, the likeliest level and the mean of all by their scores.

    Of a long text the beginning is read, with a warning.  Without a token that the model knows, label and value are
    None; where it knows less than half of the tokens, ``known`` is their share.
    """

    def named(self, scores: dict[str, float]) -> Rating:
        mean = sum(level(label) * score for label, score in scores.items()) if scores else None
        return Rating(label=likeliest(scores)["label"], value=mean, scores=scores)


class Ratings(ClassTask):
    """An encoder or a decoder with a class for each level."""

    spec = SPEC
    pipeline_tag = "text-classification"
    loader = pipeline_loader(pipeline_tag, label_scores, truncation=True)
    needs = "a table of texts with a level each"
    data, reader = RatedData, Rater

    def expected(self, known: Any) -> str:
        usual = ": a level is a number or stars, and one of 1 to 5 where nearly all are"
        return usual if known is None else super().expected(known)

    def measure(self, pipe: Any) -> OrderedLevels:
        return OrderedLevels(pipe.labels)

    def meaning(self, written: str) -> float:
        return level(written)

    def meant(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        most, before = out_of(rows), getattr(known, "recorded", {}).get("out_of")
        if most and before and most != before:
            raise ValueError(f"ratings are out of {most}, and those of the model out of {before}")
        if known is not None:
            return super().meant(rows, found, known)
        values = np.array([level(cell) for cell in rows.classes])
        counts = np.bincount(rows.targets, minlength=len(values))
        levels = ~np.isnan(values) & ~(values > (most or math.inf))
        odd = levels & ~np.isin(values, list(USUAL))
        few = {*values[levels]} > USUAL and counts[odd].sum() <= FEW * len(rows)
        return levels & ~odd if few else levels


TASK = Ratings()
