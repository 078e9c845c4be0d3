"""Numbers: an encoder with one output, the number in its own unit.

The head starts at the mean of the training numbers and moves in steps of their spread, so that what is learnt does not
depend on the unit, and what is saved needs nothing beside its weights.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.open.columns import Detected
from headway.data.records.labels import Labelled
from headway.data.records.numbers import Unclear, Written, numbers
from headway.errors import InputError
from headway.formats.hf.loaders import pipeline_loader
from headway.hub.kept_entries import kept
from headway.models.heads import Gives, gives, n_outputs
from headway.models.transformer import Encoder
from headway.tasks.answers import Number
from headway.tasks.base import TextTask
from headway.tasks.baselines import linear_numbers
from headway.tasks.checks import same_numbers
from headway.tasks.labels import HALF
from headway.tasks.losses import WholeLoss
from headway.tasks.readers import TextPipeline
from headway.tasks.regression.spec import MEAN_ABSOLUTE_ERROR, SPEC
from headway.tasks.rows_data import NumberData
from headway.tasks.task import TaskInputs
from headway.training.base import Base
from headway.training.evaluation.intervals import spearman
from headway.training.plan import Plan


class SquaredError(WholeLoss):
    """The squared error in units of ``spread``, the standard deviation of the training numbers."""

    def __init__(self, spread: float = 1.0):
        self.spread = spread

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return ((outputs - targets) / self.spread) ** 2

    def means(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {MEAN_ABSOLUTE_ERROR.key: (outputs - targets).abs()}

    def measured(self, outputs: Tensor, targets: Tensor, each: list[np.ndarray] | None = None) -> dict[str, Any]:
        """val_loss, mean absolute error, R² and Spearman's rank correlation.

        R² is 1 minus the squared error over that of the mean of these targets.  Both are None where all targets, the
        correlation also where all outputs, are equal.
        """
        error, wanted = (outputs - targets).double(), targets.double()
        whole = float(((wanted - wanted.mean()) ** 2).sum())
        ranked = whole and len(outputs.unique()) > 1
        return {
            **super().measured(outputs, targets, each),
            "r2": 1 - float((error**2).sum()) / whole if whole else None,
            "spearman": spearman(outputs.double().numpy(), wanted.numpy()) if ranked else None,
        }


class RegressionData(NumberData):
    """Texts with a number each; a run records what stands before decimals, and the mean and spread of its numbers."""

    def checked(self, base: Base) -> Base:
        if not isinstance(super().checked(base).model, Encoder):
            raise InputError(
                f"{base.path}: is a decoder, whose head in transformers has no bias for the mean of the numbers; start "
                "from an encoder."
            )
        return base

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        written = TASK.written(rows, given.found)
        self.recorded = written.facts()
        rows.warnings.extend([f"column {given.found.label_column!r}: {written.doubt}"] if written.doubt else [])
        values = self.values(rows)
        if values.min() == values.max():
            column = given.found.label_column
            raise InputError(f"{given.source.name}: column {column!r} holds one number only ({values[0]:g}).")
        model: Any = None if self.base is None else self.base.model
        fits = gives(model) is Gives.ROW and n_outputs(model) == 1 and kept(model, "problem_type") == SPEC.problem
        self.new_head = self.base is not None and not fits

    def set_targets(self, train: Labelled, held_out: Labelled) -> None:
        super().set_targets(train, held_out)
        learnt = self.train_targets.astype(np.float64)
        self.recorded |= {"mean": float(learnt.mean()), "spread": float(learnt.std()) or 1.0}

    def guesses(self) -> dict[str, Any]:
        middles = {"mean": self.train_targets.mean(), "median": np.median(self.train_targets)}
        guesses = {name: np.full(len(self.targets), middle) for name, middle in middles.items()}
        return guesses | self.linear_guess(linear_numbers)

    def build(self, plan: Plan) -> nn.Module:
        model: Any = super().build(plan)
        spread = self.recorded["spread"]
        if self.base is None or self.new_head:
            with torch.no_grad():
                model.head.out.weight.mul_(spread)
                model.head.out.bias.mul_(spread).add_(self.recorded["mean"])
        model.head.out.unit = spread
        return model


class NumberReader(TextPipeline):
    """A model that answers {"value"}, in the unit of the numbers that were learnt.

    Of a long text the beginning is read, with a warning.  Without a token that the model knows, the value is None;
    where it knows less than half of the tokens, ``known`` is their share.
    """

    nothing = "no number is given"

    def answers(self, outputs: Tensor, known: Sequence[float]) -> list[Number]:
        answers: list[Number] = []
        for value, share in zip(outputs.reshape(-1).tolist(), known, strict=True):
            answers.append({"value": value if share else None})
            if share < HALF:
                answers[-1]["known"] = share
        return answers


class Regression(TextTask):
    """An encoder with one output for each text."""

    spec = SPEC
    pipeline_tag = "text-classification"
    loader = pipeline_loader(pipeline_tag, same_numbers, truncation=True)
    data, reader = RegressionData, NumberReader

    def measure(self, pipe: Any) -> SquaredError:
        return SquaredError(pipe.recorded.get("spread", 1.0))

    def written(self, rows: Labelled, found: Detected, known: Any = None) -> Written:
        """How the numbers of a file are written: what it does not show is as in the run's own.  Raises Unclear."""
        columns = rows.table.judged(found.label_column or "")
        before = Written.recorded(getattr(known, "recorded", {}))
        if any(column.native for column in columns):  # what is a number in its file means itself
            if before is not None and before.unit == "%":
                raise Unclear(f"{rows.classes[0]} is not in %, as the numbers of the model are")
            return Written()
        return Written.of(rows.classes, before, mixed=any(column.mixed for column in columns))

    def meant(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        return ~np.isnan(numbers(rows.classes, self.written(rows, found, known).decimal))

    def targets(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        return numbers(rows.classes, self.written(rows, found, known).decimal).astype(np.float32)[rows.targets]


TASK = Regression()
