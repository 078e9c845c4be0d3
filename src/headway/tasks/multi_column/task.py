"""Several label columns: one encoder, whose head gives the outputs of all of them, side by side.

What is learnt, measured and answered of a column is that of its own task.  A label may be missing: it adds nothing to
the loss and the metrics of its column.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch, Examples, TargetKind
from headway.data.open.detected import Detected
from headway.data.records.labels import Labelled, labelled
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.directory import model_config
from headway.hub.kept_entries import COLUMNS, keep, kept, set_units, slices, width
from headway.tasks.base import TextTask
from headway.tasks.baselines import LINEAR
from headway.tasks.checks import LABEL, TEXT, Material, MaterialInputs, synthetic_table
from headway.tasks.data_facts import DataFacts
from headway.tasks.inputs import known_shares
from headway.tasks.losses import RowLoss
from headway.tasks.multi_column.columns import (
    ColumnLosses,
    Part,
    column_task,
    columns_of,
    one_column,
    side_by_side,
    usual,
)
from headway.tasks.multi_column.recognise import task_of
from headway.tasks.multi_column.spec import SPEC
from headway.tasks.readers import TextReader
from headway.tasks.rows_data import NumberData
from headway.tasks.task import TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.training.options import TrainOptions
from headway.training.plan import Plan


class ColumnsData(NumberData):
    """Texts with several columns."""

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        self.columns: dict[str, NumberData] = {}
        self.tasks = tasks_of(rows.table, given.found, None)
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
        own = {name: self.described(name) for name in names}
        known = None if self.base is None else kept(self.base.model, COLUMNS)
        self.new_head = self.base is not None and not same_columns(own, known)
        self.head_of = own if known is None or self.new_head else known

    def described(self, name: str) -> dict[str, Any]:
        """What a model says of a column."""
        column = self.columns[name]
        facts = {key: value for key, value in column.facts_of(column.parts.train).items() if key != "classes"}
        return {"task": column.task.spec.name, "labels": column.labels, **facts}

    def facts_of(self, rows: Labelled) -> dict[str, Any]:
        return {"tasks": {name: task.spec.name for name, task in self.tasks.items()}}

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


def tasks_of(table: Table, found: Detected, known: Any) -> Mapping[str, TextTask]:
    """The task of each column: of the run's, where it is known."""
    if known is not None:
        tasks: Mapping[str, TextTask] = known.tasks
        return tasks
    facts = DataFacts(table, found.text_column)
    return {name: column_task(task_of(facts, found.text_column or "", name)) for name in found.label_columns}


def same_columns(own: Mapping[str, Any], known: Any) -> bool:
    """Whether a model has these columns, with the same tasks and labels, in the same order."""
    if not isinstance(known, dict) or list(known) != list(own):
        return False
    return all(known[name].get(key) == own[name][key] for name in own for key in ("task", "labels"))


class ColumnsReader(TextReader):
    """A model of several columns: an answer says of each what a model of that column alone would say."""

    task = SPEC.name

    def __init__(self, directory: Path, model: Any, tokenizer: Tokenizer, facts: dict[str, Any]):
        length, metrics = facts.get("plan", {}).get("length"), facts.get("metrics", {}).get("columns", {})
        super().__init__(model, tokenizer, length)
        if (columns := kept(model, COLUMNS)) is None:
            raise InputError(f"{directory / 'config.json'}: does not say which columns the model predicts.")
        self.tasks = {name: column_task(column["task"]) for name, column in columns.items()}
        places = slices(map(width, columns.values()))
        self.columns: dict[str, Any] = {}
        for place, (name, column) in zip(places, columns.items(), strict=True):
            known = {"data": column, "plan": {"length": length}, "metrics": metrics.get(name, {})}
            parts = one_column(model, place, column), self.tokenizer, column["labels"]
            self.columns[name] = self.tasks[name].reading(directory, parts, known)
        losses = [self.tasks[name].measure(pipe) for name, pipe in self.columns.items()]
        self.layout = side_by_side(self.tasks, losses, [column["labels"] for column in columns.values()])

    def __call__(self, text: Any) -> Any:
        """The answer to a text, or a list of them, in order: {column: what its own task answers}."""
        rows, _, alone = self.rows(text)
        known = known_shares(self.tokenizer, rows, "nothing is predicted")
        answers = self.answers_of(self.outputs(rows), known) if rows else []
        return answers[0] if alone else answers

    def answers_of(self, outputs: Tensor, known: Sequence[float]) -> list[dict[str, Any]]:
        """The answers to the outputs of some texts (N, C), of whose tokens these shares are known."""
        each = [self.columns[part.name].answers_of(outputs[:, part.outputs], known) for part in self.layout]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*each, strict=True)]


class MultiColumn(TextTask):
    """An encoder or a decoder with the outputs of several columns."""

    spec, data = SPEC, ColumnsData
    needs = "a table of texts with several columns to learn"

    def pipeline(self, model: nn.Module, directory: Path, facts: dict[str, Any]) -> ColumnsReader:
        return self.reading(
            directory, (model, Tokenizer.load(directory, rows=model_config(model).vocab_size), []), facts
        )

    def reading(self, directory: Path, parts: tuple[Any, Tokenizer, list[str]], facts: dict[str, Any]) -> ColumnsReader:
        return ColumnsReader(directory, *parts[:2], facts)

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
