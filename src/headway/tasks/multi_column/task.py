"""Several label columns: one encoder, whose head gives the outputs of all of them, side by side.

What is learnt, measured and answered of a column is that of its own task.  A label may be missing: it adds nothing to
the loss and the metrics of its column.  Letters: N texts, B texts of a batch, C outputs, K columns.
"""

import copy
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch, Examples, TargetKind
from headway.data.open.columns import Detected
from headway.data.records.labels import BETWEEN, Labelled, labelled
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.kept_entries import COLUMNS, keep, kept, set_units, slices, width
from headway.tasks.base import TextTask
from headway.tasks.baselines import LINEAR
from headway.tasks.checks import LABEL, TEXT, Material, MaterialInputs, synthetic_table
from headway.tasks.data_facts import DataFacts
from headway.tasks.losses import RowLoss, WholeLoss
from headway.tasks.multi_column.recognise import task_of
from headway.tasks.multi_column.spec import SPEC
from headway.tasks.readers import TextPipeline, tokenizer_of
from headway.tasks.registry import spec, task_named
from headway.tasks.rows_data import NumberData
from headway.tasks.task import TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.training.options import TrainOptions
from headway.training.plan import Plan

MOST_PUSHED = 10_000
"""About how many rows say how much a column pushes."""


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


def side_by_side(tasks: Mapping[str, Any], losses: Sequence[Any], labels: Sequence[Sequence[str]]) -> list[Part]:
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
        classes = sorted({row.split(BETWEEN)[at] for row in rows.classes} - {""})
        number_of = {name: number for number, name in enumerate(classes)}
        of_cells = (number_of.get(row.split(BETWEEN)[at], -1) for row in rows.classes)
        numbers = np.fromiter(of_cells, np.int32, len(rows.classes))[rows.targets]
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


class ColumnsData(NumberData):
    """Texts with several columns."""

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        self.columns: dict[str, NumberData] = {}
        self.tasks = tasks_of(rows.table, given.found, None)
        self.recorded = {"tasks": {name: task.spec.name for name, task in self.tasks.items()}}
        for name, alone, _ in columns_of(rows, given.found.label_columns):
            if not len(alone):
                raise InputError(f"{rows.name}: column {name!r} holds no label.")
            of_one = replace(given, found=found_of(given.found, name), base=None, earlier=None)
            self.columns[name] = self.tasks[name].data.of_column(self.tasks[name], of_one, alone)
            rows.warnings.extend(alone.warnings)
        for column, labels in ((name, column.labels or [""]) for name, column in self.columns.items()):
            self.labels += [f"{column}: {label}" if label else column for label in labels]

    @property
    def layout(self) -> list[Part]:
        """The columns side by side."""
        losses = [column.objective(None) for column in self.columns.values()]
        return side_by_side(self.tasks, losses, [column.labels for column in self.columns.values()])

    def set_targets(self, train: Labelled, held_out: Labelled) -> None:
        names = list(self.columns)
        for (name, learnt, _), (_, held, _) in zip(columns_of(train, names), columns_of(held_out, names), strict=True):
            if not len(learnt) or not len(held):
                which = "held out" if len(learnt) else "to train on"
                raise InputError(f"{train.name}: column {name!r} has no label in the rows {which}; add rows with one.")
            self.columns[name].parts = replace(self.parts, train=learnt, held_out=held)
            self.columns[name].set_targets(learnt, held)
        super().set_targets(train, held_out)
        for part, column in zip(self.layout, self.columns.values(), strict=True):
            if len(column.train_targets) == len(train):  # the same numbers are held once
                column.train_targets = self.train_targets[:, part.targets].reshape(column.train_targets.shape)
        own: dict[str, dict[str, Any]] = {}
        for name, column in self.columns.items():
            own[name] = {"task": column.task.spec.name, "labels": column.labels, **column.recorded}
        known: Any = None if self.base is None else kept(self.base.model, COLUMNS)
        same = isinstance(known, dict) and list(known) == names  # with the same tasks and labels
        same = same and all(known[name].get(key) == own[name][key] for name in own for key in ("task", "labels"))
        self.new_head = self.base is not None and not same
        self.head_of = known if same else own

    def measure_baselines(self) -> None:
        constant = np.concatenate([usual(column.train_targets, column.outputs) for column in self.columns.values()])
        outputs = torch.tensor(constant, dtype=torch.float32).expand(len(self.targets), -1)
        each: list[np.ndarray] = []
        simple = self.objective(None).measured(outputs, torch.tensor(self.targets), each)
        lines: dict[str, dict[str, Any]] = {
            "the usual of each column": {**simple, "columns": {}},
            LINEAR: {"columns": {}},
        }
        for name, column in self.columns.items():
            column.measure_baselines()
            self.warnings += [f"column {name!r}: {line}" for line in column.warnings]
            for metrics in column.baselines:
                line = lines[LINEAR] if metrics["name"] == LINEAR else lines["the usual of each column"]
                line["columns"].setdefault(name, {key: metrics[key] for key in metrics if key != "name"})
        self.baselines += [{"name": name, **line} for name, line in lines.items() if line["columns"]]
        self.of_baselines["the usual of each column"] = each[0]

    def objective(self, plan: Plan | None) -> ColumnLosses:
        return ColumnLosses(self.layout, torch.from_numpy(self.train_targets))

    def plan(self, seconds: float | None) -> Plan:
        plan, count = super().plan(seconds), len(self.columns)
        if self.base is None or self.options.optimisation.learning_rate is not None:
            return plan
        rate = plan.learning_rate * math.sqrt(count)
        why = f"{count} columns push in {count} directions: that of one column, times the root of their number"
        return plan.decided("learning rate", f"{rate:.2g}", why, "--learning-rate", learning_rate=rate)

    def build(self, plan: Plan) -> nn.Module:
        model = super().build(plan)
        keep(model, columns=self.head_of)
        set_units(model, Path())
        return model


def found_of(found: Detected, name: str) -> Detected:
    """What was detected, for one of the columns alone."""
    return replace(found, label_column=name, label_columns=())


def tasks_of(table: Table, found: Detected, known: Any) -> Mapping[str, Any]:
    """The task of each column: of the run's, where it is known."""
    if known is not None:
        return known.tasks
    facts = DataFacts(table, found.text_column)
    return {name: task_named(task_of(facts, found.text_column or "", name)) for name in found.label_columns}


class ColumnsReader(TextPipeline):
    """A model of several columns: an answer says of each what a model of that column alone would say."""

    nothing = "nothing is predicted"

    def __init__(self, task: Any, directory: Path, parts: tuple[Any, Tokenizer, list[str]], facts: dict[str, Any]):
        super().__init__(task, directory, parts, facts)
        model, metrics = self.model, facts.get("metrics", {}).get("columns", {})
        if (columns := kept(model, COLUMNS)) is None:
            raise InputError(f"{directory / 'config.json'}: does not say which columns the model predicts.")
        self.tasks: dict[str, Any] = {name: task_named(column["task"]) for name, column in columns.items()}
        places = slices(map(width, columns.values()))
        self.columns: dict[str, Any] = {}
        for place, (name, column) in zip(places, columns.items(), strict=True):
            known = {"data": column, "plan": facts.get("plan", {}), "metrics": metrics.get(name, {})}
            alone = one_column(model, place, column), self.tokenizer, column["labels"]
            own = self.tasks[name]
            self.columns[name] = own.reader(own, directory, alone, known)
        losses = [self.tasks[name].measure(pipe) for name, pipe in self.columns.items()]
        self.layout = side_by_side(self.tasks, losses, [column["labels"] for column in columns.values()])

    def answers(self, outputs: Tensor, known: Sequence[float]) -> list[dict[str, Any]]:
        """{column: what its own task answers} for each text."""
        each = [self.columns[part.name].answers_of(outputs[:, part.outputs], known) for part in self.layout]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*each, strict=True)]


class MultiColumn(TextTask):
    """An encoder or a decoder with the outputs of several columns."""

    spec, data, reader = SPEC, ColumnsData, ColumnsReader
    needs = "a table of texts with several columns to learn"

    def pipeline(self, model: nn.Module, directory: Path, facts: dict[str, Any]) -> ColumnsReader:
        return ColumnsReader(self, directory, (model, tokenizer_of(model, directory), []), facts)

    def measure(self, pipe: ColumnsReader) -> ColumnLosses:
        return ColumnLosses(pipe.layout)

    def rows_of(self, table: Table, found: Detected, options: TrainOptions, known: Any = None) -> Labelled:
        """The rows that have a text and a label in some column; a cell that means nothing there raises InputError."""
        policy, names = options.data.on_bad_row, found.label_columns
        ways: dict[str, Any] = {"on_bad_row": policy, "to_learn": False, "as_labels": False, "partly": True}
        rows = labelled(table, found.text_column or "", names, **ways)
        tasks, good = tasks_of(table, found, known), np.ones(len(rows), dtype=bool)
        for name, alone, there in columns_of(rows, names):
            of_one = None if known is None else known.columns[name]
            fine = tasks[name].with_value(alone, found_of(found, name), policy, of_one) if len(alone) else alone
            good[there[~np.isin(alone.index, fine.index)]] = False
            rows.warnings.extend(fine.warnings)
        return rows if good.all() else rows.part(np.flatnonzero(good))

    def targets(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        """The targets of all columns side by side, float32 (N, ...), NaN where there is no label."""
        layout = known.layout
        targets = np.full((len(rows), layout[-1].targets.stop), np.nan, dtype=np.float32)
        for part, (name, alone, there) in zip(layout, columns_of(rows, list(known.columns)), strict=True):
            values = known.tasks[name].targets(alone, found_of(found, name), known.columns[name])
            targets[there, part.targets] = values.reshape(len(there), -1)
        return targets

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[RowLoss, Batch]:
        each = [pipe.tasks[name].sample_batch(one, inputs, targets)[1].targets for name, one in pipe.columns.items()]
        values = torch.cat([one.float().reshape(len(inputs), -1) for one in each], dim=1).numpy()
        return self.measure(pipe), Examples(inputs, values, TargetKind.ROW).together()

    def synthetic_data(self, pipe: Any, given: MaterialInputs) -> Material:
        def row(number: int, text: str, other: str) -> dict[str, str]:
            return {TEXT: text, **{name: pipe.tasks[name].example(number, one) for name, one in pipe.columns.items()}}

        made = synthetic_table(pipe, given.folder, row)
        return replace(made, options={TEXT: TEXT, LABEL: ",".join(pipe.columns)})


TASK = MultiColumn()
