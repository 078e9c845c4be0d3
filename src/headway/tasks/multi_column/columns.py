"""What is learnt and measured of several columns, side by side, and the model of one of them alone.

Letters: N texts, B texts of a batch, C outputs, K columns.
"""

import copy
import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch
from headway.data.records.label_typing import value_of
from headway.data.records.labels import BETWEEN, Labelled
from headway.errors import InputError
from headway.hub.kept_entries import keep, slices
from headway.tasks.answers import Label
from headway.tasks.base import TextTask
from headway.tasks.baselines import linear_guess, most_frequent
from headway.tasks.classes import ClassData, ClassTask
from headway.tasks.losses import WholeLoss
from headway.tasks.readers import LabelReader
from headway.tasks.registry import spec, task_named
from headway.tasks.task import TaskInputs

MOST_PUSHED = 10_000
"""About how many rows say how much a column pushes."""


class ColumnData(ClassData):
    """A column of classes."""

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        column, count = given.found.label_column, len(rows.classes)
        if count < 2:
            raise InputError(f"{rows.name}: column {column!r} holds one label only.")
        if count > max(2, len(rows) / 2):
            raise InputError(
                f"{rows.name}: column {column!r} has {count:,} values in {len(rows):,} rows, which do not look "
                "like labels; leave it out of --label-column."
            )
        self.labels = rows.classes

    def guesses(self) -> dict[str, np.ndarray]:
        def linear(texts: list[str], targets: np.ndarray, rows: Labelled) -> np.ndarray:
            return linear_guess(texts, targets.astype(int).tolist(), rows)

        usual = np.full(len(self.targets), most_frequent(self.train_targets.astype(int)))
        return {"majority class": usual, **self.linear_guess(linear)}


class ClassReader(LabelReader[Label]):
    """What classification answers."""

    task = "classification"


class ClassColumn(ClassTask):
    """Classification of texts, as far as a column needs it."""

    spec, data, reader = spec(ClassReader.task), ColumnData, ClassReader

    def meaning(self, written: str) -> Hashable:
        return value_of(written)


CLASSES = ClassColumn()


def column_task(name: str) -> TextTask:
    """The task of a column, by its name."""
    task: Any = CLASSES if name == ClassReader.task else task_named(name)
    return task


class Part(NamedTuple):
    """One column among the outputs and the targets of all."""

    name: str
    task: str
    loss: WholeLoss
    outputs: slice
    targets: slice

    def of(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Its outputs and targets, as its own loss reads them, and whether each row has a label, bool (N,)."""
        own, wanted = outputs[:, self.outputs], targets[:, self.targets]
        there = ~wanted[:, 0].isnan()
        own, wanted = (part.squeeze(1) if part.shape[1] == 1 else part for part in (own, wanted))
        return own, wanted, there


def side_by_side(tasks: Mapping[str, TextTask], losses: Sequence[Any], labels: Sequence[Sequence[str]]) -> list[Part]:
    """The parts of the columns: an output for each label, or one; where a text may have several a target for each."""
    widths = [len(names) or 1 for names in labels]
    wanted = [width if hasattr(loss, "thresholds") else 1 for loss, width in zip(losses, widths, strict=True)]
    names = (task.spec.name for task in tasks.values())
    return list(map(Part, tasks, names, losses, slices(widths), slices(wanted)))


class ColumnLosses(WholeLoss):
    """The mean over the columns of the mean loss of the rows that have a label there.

    So that a batch need not know the others, each row has the loss of its labels, times ``weights`` (K,): all rows by
    the labelled ones, by the columns.  What is minimised also has each loss over its ``push``, so that no column is
    learnt only after the others.
    """

    def __init__(self, parts: Sequence[Part], targets: Tensor | None = None):
        """``targets`` (N, ...) are those of the rows to train on; without them each measurement is of its own rows."""
        self.parts = list(parts)
        self.weights = None if targets is None else self.weights_of(targets)
        pushes = [1.0] * len(self.parts) if targets is None else [push(part, targets) for part in self.parts]
        self.shares = [1 / one / statistics.mean(1 / each for each in pushes) for one in pushes]

    def weights_of(self, targets: Tensor) -> list[float]:
        """The weight of each column for some rows."""
        there = [max(1, int((~targets[:, part.targets.start].isnan()).sum())) for part in self.parts]
        return [len(targets) / count / len(self.parts) for count in there]

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._each(outputs, targets, self.weights or self.weights_of(targets)).sum(dim=1)

    def _each(self, outputs: Tensor, targets: Tensor, weights: Sequence[float]) -> Tensor:
        """The loss of each row in each column, times the column's weight, (B, K)."""
        each = []
        for part, weight in zip(self.parts, weights, strict=True):
            own, wanted, there = part.of(outputs, targets)
            each.append(weight * there * part.loss.losses(own, wanted.nan_to_num()))
        return torch.stack(each, dim=1)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, float, Tensor]:
        """What is minimised, how much the rows count, and the sum of their ``losses``."""
        weights = self.weights or self.weights_of(batch.targets)
        each = batch.weighed(self._each(model(*batch.read).float(), batch.targets, weights))
        return (each * each.new_tensor(self.shares)).sum(), batch.weight, each.detach().sum()

    def measured(self, outputs: Tensor, targets: Tensor, each: list[np.ndarray] | None = None) -> dict[str, Any]:
        """val_loss, and by column what its own task measures."""
        losses = self._each(outputs, targets, self.weights_of(targets)).sum(dim=1).double()
        if each is not None:
            each.append(np.stack([losses.numpy(), np.ones(len(losses))], axis=1))
        columns = {}
        for part in self.parts:
            own, wanted, there = part.of(outputs, targets)
            if there.any():
                columns[part.name] = {"task": part.task, **part.loss.measured(own[there], wanted[there])}
        return {"val_loss": float(losses.mean()), "columns": columns}


def columns_of(rows: Labelled, names: Sequence[str]) -> Iterator[tuple[str, Labelled, np.ndarray]]:
    """Of each column its name, the rows that have a label there, and their numbers among ``rows``."""
    for at, name in enumerate(names):
        number_of: dict[str, int] = {}
        cells = (number_of.setdefault(row.split(BETWEEN)[at], len(number_of)) for row in rows.classes)
        cell_of_row = np.fromiter(cells, np.int32, len(rows.classes))
        classes = sorted(number_of.keys() - {""})
        class_of_cell = np.full(len(number_of), -1, dtype=np.int32)
        class_of_cell[[number_of[one] for one in classes]] = np.arange(len(classes))
        numbers = class_of_cell[cell_of_row[rows.targets]]
        there = np.flatnonzero(numbers >= 0)
        own = rows if len(there) == len(rows) else rows.part(there)  # in most tables every row has every label
        yield name, replace(own, classes=classes, targets=numbers[there], warnings=[]), there


def usual(targets: np.ndarray, outputs: int) -> np.ndarray:
    """The outputs (C,) that fit the targets (N,) or (N, C) of some rows best, whatever their texts."""
    if targets.ndim == 2:
        share = targets.mean(axis=0).clip(1e-3, 1 - 1e-3)
        return np.log(share / (1 - share))
    if outputs == 1:
        return targets.mean(keepdims=True)
    return np.log(np.bincount(targets.astype(int), minlength=outputs) + 1)


@torch.enable_grad()
def push(part: Part, targets: Tensor) -> float:
    """How much a column changes its outputs when training begins: the norm of the gradient at the ``usual`` ones.

    Of numbers it is that of the output before its unit.  ``targets`` (N, ...) are those of the rows to train on.
    """
    wanted = targets[:, part.targets]
    wanted = wanted[~wanted[:, 0].isnan()]
    wanted = wanted[:: max(1, len(wanted) // MOST_PUSHED)]
    wanted = wanted.squeeze(1) if wanted.shape[1] == 1 else wanted
    constant = torch.tensor(usual(wanted.numpy(), part.outputs.stop - part.outputs.start), dtype=torch.float32)
    outputs = constant.repeat(len(wanted), 1).requires_grad_()
    part.loss.losses(outputs.squeeze(1) if outputs.shape[1] == 1 else outputs, wanted).sum().backward()
    gradient = torch.zeros(1) if outputs.grad is None else outputs.grad
    return max(1e-6, float(gradient.square().sum(dim=1).mean().sqrt()) * getattr(part.loss, "spread", 1.0))


@torch.no_grad()
def one_column(model: Any, outputs: slice, column: Mapping[str, Any]) -> Any:
    """The model of a column alone, as its own task would have made it; all but the last matrix is shared."""
    alone, head = copy.copy(model), copy.copy(model.head)
    alone._modules, head._modules, head._buffers = dict(model._modules), dict(head._modules), dict(head._buffers)
    scale, offset, whole = column.get("spread", 1.0), column.get("mean", 0.0), model.head.out
    head.out = type(whole)(whole.in_features, outputs.stop - outputs.start, bias=whole.bias is not None)
    head.out.weight.copy_(whole.weight[outputs] * scale)
    if whole.bias is not None:
        head.out.bias.copy_(whole.bias[outputs] * scale + offset)
    head.set_scale(None, None)
    alone.head, alone.kept = head, {}
    entries: dict[str, Any] = {"problem_type": spec(column["task"]).problem}
    entries |= {"id2label": {str(at): label for at, label in enumerate(column["labels"])}} if column["labels"] else {}
    keep(alone, **entries)
    return alone.eval()
