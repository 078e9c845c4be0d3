"""A task of texts with a number each: all but its loss and its answers, and, where it wants one, its own model.

class Stars(TextTask):
    spec = SPEC
    objective = Error()                     # a ``losses.RowLoss``

    def new_model(self, config): ...        # a model of ids and mask (B, T), which has an output for each text

Without ``new_model`` a new model is an encoder with a head of ``outputs`` numbers for each text, and so is one that
starts from a pretrained model (``--from``).  With ``reads_pairs`` an input is two texts, read as one row; the task's
recogniser is then a ``recognise.TwoTextsAndValue``, and a model of its own is given (ids, mask, segments).
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.data.batches.batching import Batch, TargetKind, border
from headway.data.batches.examples import Examples
from headway.data.open.columns import number
from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.labels import BETWEEN, Labelled, labelled
from headway.data.records.sample import few
from headway.data.records.table import Table
from headway.errors import InputError, shown
from headway.hub.directory import model_config
from headway.hub.fine_tune import for_classification
from headway.hub.kept_entries import keep
from headway.io.quantities import counted
from headway.models.heads import Gives, gives, n_outputs
from headway.models.initialise import initialise
from headway.models.own import OwnConfig
from headway.models.transformer import Decoder, Encoder
from headway.runtime.runtime import Runtime
from headway.tasks.checks import Material, MaterialInputs, made_up_table, own_model
from headway.tasks.held_out import EvaluationInputs, Parts, in_parts
from headway.tasks.inputs import (
    beginnings,
    checked_length,
    cut_pairs,
    cut_warning,
    pair_list,
    reading_length,
    text_list,
    usual_longest,
)
from headway.tasks.losses import RowLoss, averages, of_one, units
from headway.tasks.rows import base_vocabulary, encoded_texts, measured_rows
from headway.tasks.task import Task, TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import prepared_base
from headway.training.option_fields import flag
from headway.training.options import TrainOptions
from headway.training.plan import Decision, Plan
from headway.training.sizing.architecture import family_of_layout
from headway.training.sizing.presets import encoder_plan, fine_tune_rows_plan

if TYPE_CHECKING:
    from headway.tasks.inside import Inside

LONGEST = 512
"""Tokens: texts are not read further than this unless ``--length`` says so."""
OF_TRANSFORMERS = ("model", "heads", "preset", "extend_vocab")
"""Options that a model of a task's own does not have."""


class TextTask(Task):
    """Texts with a number each; loss and answers are those of the subclass."""

    objective: ClassVar[RowLoss]
    needs: ClassVar[str] = "a table of texts with a number each"
    outputs: ClassVar[int] = 1
    """how many numbers a head gives for each text; the loss reads (B,) of one, (B, C) of several"""

    @property
    def has_own_model(self) -> bool:
        """Whether a model from scratch is the one of ``new_model``."""
        return type(self).new_model is not Task.new_model

    def value(self, written: str) -> float:
        """The target that a cell means; NaN where it means none."""
        return number(written)

    def answers(self, outputs: Tensor) -> list[Any]:
        """The answers, of which JSON can be made, to the outputs (B, ...) for some texts."""
        answers: list[Any] = outputs.tolist()
        return answers

    def open_data(self, given: TaskInputs) -> TaskData:
        return NumberData(self, given)

    def pipeline(self, model: nn.Module, directory: Path, facts: dict[str, Any]) -> "TextPipeline":
        config = model_config(model)
        own = isinstance(config, OwnConfig) and config.task == self.spec.name
        if not own and (gives(model) is not Gives.ROW or n_outputs(model) != self.outputs):
            raise InputError(f"{directory / 'config.json'}: is no model for {self.spec.name}.")
        return TextPipeline(self, model, Tokenizer.load(directory, rows=config.vocab_size), facts)

    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        table = given.table(f"a model for {self.spec.name} is measured on {self.needs}")
        rows = given.sampled(given.held_out(self.rows_of(table, given.found, given.options, pipe)))
        targets = self.targets(rows, given.found, pipe)
        examples = encoded_texts(rows, pipe.tokenizer).cut(pipe.max_length).examples(targets)
        metrics = measured_rows(pipe, self.measure(pipe), examples, given.each)
        return {**metrics, "examples": len(rows)}

    def measure(self, pipe: Any) -> RowLoss:
        """The loss and the metrics of a saved model."""
        return self.objective

    def trial(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[RowLoss, Batch]:
        borders = np.array([len(ids) // 2 for ids in inputs]) if self.reads_pairs else None
        count, width = len(inputs), n_outputs(pipe.model)
        values = (
            np.arange(count, dtype=float) if width < 2 else np.arange(count * width, dtype=float).reshape(count, -1) % 2
        )
        return self.measure(pipe), Examples(inputs, values, TargetKind.ROW, borders=borders).together()

    def example(self, number: int, pipe: Any) -> str:
        """A cell that means a target, another one for each number."""
        return str(1 + number % 5)

    def made_up(self, pipe: Any, given: MaterialInputs) -> Material:
        def row(number: int, text: str, other: str) -> dict[str, str]:
            two = {"text_column": text, "second_column": other} if self.reads_pairs else {"text_column": text}
            return {**two, "label_column": self.example(number, pipe)}

        return made_up_table(pipe, given.folder, row)

    def inspect(self, pipe: Any, given: Any, target: str | None) -> "Inside | None":
        if self.reads_pairs or isinstance(model_config(pipe.model), OwnConfig):
            return None
        from headway.tasks.inspection import of_text

        return of_text(pipe, given, target, following=False)

    def some_inputs(self, source: Corpus | Table, found: Detected, count: int) -> list[Any]:
        if not self.reads_pairs or not isinstance(source, Table):
            return super().some_inputs(source, found, count)
        both = zip(source.values(found.text_column or ""), source.values(found.second_column or ""), strict=True)
        return few((pair for pair in both if all(map(str.strip, pair))), count)

    def targets(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        """The target of each row, float32 (N,) or (N, C); a pipeline or the data of a run may be ``known``."""
        return np.array([self.value(written) for written in rows.classes], dtype=np.float32)[rows.targets]

    def meant(self, written: Sequence[str], found: Detected, known: Any = None) -> np.ndarray:
        """Whether each distinct cell means a target, bool (D,); the cells of several columns are one (``BETWEEN``)."""
        return np.array([not math.isnan(self.value(cell)) for cell in written], dtype=bool)

    def rows_of(self, table: Table, found: Detected, options: TrainOptions, known: Any = None) -> Labelled:
        """The rows that have a text, or two, and a value; other rows raise InputError."""
        policy, columns = options.data.on_bad_row, found.label_columns or (found.label_column or "",)
        ways: dict[str, Any] = {"on_bad_row": policy, "to_learn": False, "as_labels": False}
        value = columns[0] if len(columns) == 1 else columns
        rows = labelled(table, found.text_column or "", value, second_column=found.second_column, **ways)
        missing = ~self.meant(rows.classes, found, known)[rows.targets]
        wrong, named = np.flatnonzero(missing), " or ".join(map(repr, columns))
        if len(wrong) and policy != "skip":
            written = " and ".join(shown(cell) for cell in rows.classes[rows.targets[wrong[0]]].split(BETWEEN))
            raise InputError(
                f"{table.name}: column {named} holds {written}, which is no value for {self.spec.name} "
                f"({table.places(rows.index[wrong].tolist())}). Correct it, or pass --on-bad-row skip."
            )
        if len(wrong):
            left_out = (
                f"{counted(len(wrong), 'row')} without a value left out ({table.places(rows.index[wrong].tolist())})"
            )
            kept = rows.part(np.flatnonzero(~missing))
            rows = replace(kept, warnings=[*rows.warnings, left_out])
        if not len(rows):
            raise InputError(f"{table.name}: no row has a value for {self.spec.name} in column {named}.")
        return rows


class TextData(TaskData):
    """Texts with a value each: split, tokenised and cut by one rule for all such tasks."""

    task: TextTask
    parts: Parts
    held_out_by = "10 %, duplicates on one side"
    """how rows are held out, in words"""

    def __init__(self, given: TaskInputs):
        self.options, self.base, self.progress = given.options, given.base, given.progress
        rows, other = self.read(given)
        self.parts = in_parts(given, rows, other)
        both = self.parts.train, self.parts.held_out
        self.train_targets, self.targets = map(self.values, both)
        characters = int(both[0].lengths.sum(dtype=np.int64))
        vocabulary = base_vocabulary(given, both[0], out_of=characters)
        self.tokenizer = vocabulary.tokenizer or self.new_tokenizer(both[0], characters)
        encoded = [encoded_texts(part, self.tokenizer) for part in both]
        lengths = encoded[0].ids.lengths
        self.longest = self.options.data.length or usual_longest(lengths, LONGEST)
        if self.base is not None:
            self.longest = min(self.longest, checked_length(self.options, self.base.config.max_length))
        self.encoded = [part.cut(self.longest) for part in encoded]
        self.train, self.validation = (part.ids for part in self.encoded)
        self.warnings = [*rows.warnings, *self.parts.warnings, *cut_warning(lengths, self.longest)]
        facts = {**self.parts.facts(given, "rows", self.held_out_by), **self.facts_of(rows)}
        self.facts = {**facts, "warnings": self.warnings, **vocabulary.facts}

    @abstractmethod
    def read(self, given: TaskInputs) -> tuple[Labelled, Labelled | None]:
        """The rows of the files, and those of the validation files.  Raises InputError."""

    @abstractmethod
    def values(self, rows: Labelled) -> np.ndarray:
        """The target of each row, (N,) or (N, C)."""

    @property
    def outputs(self) -> int:
        """How many numbers a new head gives for each text."""
        return self.task.outputs

    def new_tokenizer(self, texts: Labelled, characters: int) -> Tokenizer:
        """The tokenizer of a model from scratch, from texts of so many characters."""
        kind, vocab = self.options.data.tokenizer or "word", self.options.data.vocab
        return train_tokenizer(texts, kind, vocab, role="encoder", out_of=characters)

    def facts_of(self, rows: Labelled) -> dict[str, Any]:
        """What headway.json says of the values of all rows."""
        return {}

    def batch_source(self, plan: Plan) -> BatchSource:
        train, held_out = self.encoded[0].examples(self.train_targets), self.encoded[1].examples(self.targets)
        return RowBatches(train, held_out, plan.batch_tokens, plan.seed, max_examples=plan.max_examples)

    def plan(self, seconds: float | None) -> Plan:
        if self.base is not None:
            plan = fine_tune_rows_plan(self.options, self.base.config, self.train.lengths, self.longest)
            head = "a new one, which starts untrained" if self.new_head else f"the one of {self.base.path}"
            why = f"{self.base.path} is {'no' if self.new_head else 'a'} model for {self.task.spec.name}"
            plan = plan.but(decisions=[*plan.decisions, asdict(Decision("head", head, why, "--from"))])
        elif self.task.has_own_model:
            return self._own_plan()
        else:
            plan = encoder_plan(self.options, self.tokenizer.vocab_size, self.train.lengths, self.longest)
        return plan.but(token_dropout=0.0, label_smoothing=0.0)

    def _own_plan(self) -> Plan:
        asked, rows = self.options, len(self.train)
        whole = asked.but(d_model=None, layers=None)  # the width of an encoder has rules that this model has not
        plan = encoder_plan(whole, self.tokenizer.vocab_size, self.train.lengths, self.longest)
        width, layers = asked.architecture.d_model or OwnConfig.d_model, asked.architecture.layers or OwnConfig.n_layers
        sizes = {"d_model": width, "n_layers": layers, "max_length": self.longest, "dropout": plan.config.dropout}
        config = OwnConfig(self.task.spec.name, self.tokenizer.vocab_size, **sizes)
        size = f"{config.described}, width {width}, {self.longest} tokens"
        flags = "--d-model, --layers, --length, --dropout"
        decisions = [asdict(Decision("model", size, f"{rows:,} texts", flags)), *plan.decisions[1:]]
        precision = asked.runtime.precision or "float32"
        return plan.but(model=asdict(config), token_dropout=0.0, precision=precision, decisions=decisions)

    def build(self, plan: Plan) -> nn.Module:
        outputs, dropout = self.outputs, plan.config.dropout
        if self.base is not None:
            model: Any = self.base.model
            if self.new_head:  # else it goes on with its own
                for_classification(model, outputs, dropout=dropout, seed=plan.seed)
        elif self.task.has_own_model:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(plan.seed)
                return own_model(self.task, plan.config)
        else:
            head = family_of_layout(self.options).head(Gives.ROW, plan.config, outputs, dropout)
            model = initialise(Encoder(plan.config, head), plan.seed)
        if self.task.spec.problem is not None:
            keep(model, problem_type=self.task.spec.problem)
        return model if self.base is None else prepared_base(model, plan)


class NumberData(TextData):
    """The rows of a ``TextTask``."""

    def __init__(self, task: TextTask, given: TaskInputs):
        self.task, self.labels, self.reads_pairs = task, [], task.reads_pairs
        self.new_head = given.base is not None and (given.base.facts or {}).get("task") != task.spec.name
        super().__init__(given)
        self.baselines: list[dict[str, Any]] = []
        self.of_baselines: dict[str, np.ndarray] = {}
        self.measure_baselines()

    def read(self, given: TaskInputs) -> tuple[Labelled, Labelled | None]:
        task = self.task
        if not isinstance(given.source, Table):
            raise InputError(f"{given.source.name}: {task.spec.name} needs {task.needs}.")
        if self.base is None and task.has_own_model and (wrong := self.options.given(OF_TRANSFORMERS)):
            raise InputError(f"--{flag(wrong[0])} is for Transformers; {task.spec.name} trains a model of its own.")
        if self.base is not None and not isinstance(self.base.model, Encoder | Decoder):
            raise InputError(f"{self.base.path}: is no encoder and no decoder of texts; name one with --from.")
        self.found, held_out = given.found, None
        rows = task.rows_of(given.source, given.found, self.options)
        self.learn(given, rows)
        if isinstance(given.held_out, Table):
            held_out = task.rows_of(given.held_out, given.found, self.options, self)
        return rows, held_out

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        """Find what the task knows of its targets (its labels) in the rows of the files.  Raises InputError."""

    def values(self, rows: Labelled) -> np.ndarray:
        return self.task.targets(rows, self.found, self)

    def measure_baselines(self) -> None:
        """Add the baselines: of a model of one number the mean of the training rows."""
        targets = torch.tensor(self.targets)
        try:
            part = self.task.objective.of(torch.full_like(targets, float(self.train_targets.mean())), targets)
        except (RuntimeError, IndexError, ValueError):
            return  # the loss is of other outputs
        self.baselines.append({"name": "the mean", **averages([part])})
        self.of_baselines = {"the mean": units(part)}

    def objective(self, plan: Plan) -> RowLoss:
        return self.task.objective


class TextPipeline:
    """The model of a task of texts, its tokenizer and its answers."""

    def __init__(self, task: TextTask, model: nn.Module, tokenizer: Tokenizer, facts: dict[str, Any]):
        self.task, self.model, self.tokenizer = task.spec.name, model, tokenizer
        self.runtime = Runtime(model)
        self.max_length = reading_length(model, tokenizer, facts.get("plan", {}).get("length"))
        self._answers: Callable[[Tensor], list[Any]] = task.answers
        self.reads_pairs = task.reads_pairs

    def __call__(self, text: str | tuple[str, str] | Iterable[str | tuple[str, str]]) -> Any:
        """The answer to an input, or a list of them, in order; a long one is cut as in training, with a warning.

        An input is a text, or a tuple of two.
        """
        rows, borders, alone = self.rows(text)
        answers = self._answers(self.outputs(rows, borders)) if rows else []
        return answers[0] if alone else answers

    def rows(self, text: Any) -> tuple[list[list[int]], np.ndarray | None, bool]:
        """The ids of each input, the borders of two texts, and whether there was one input and no list."""
        if not self.reads_pairs:
            texts, alone = text_list(text)
            return beginnings(self.tokenizer, texts, self.max_length), None, alone
        pairs, alone = pair_list(text)
        joined = cut_pairs(self.tokenizer, pairs, self.max_length)
        return [pair.ids for pair in joined], np.array([border(pair.segments) for pair in joined]), alone

    def outputs(self, rows: Sequence[list[int]], borders: np.ndarray | None = None) -> Tensor:
        """What the model gives for rows of ids, float32 (N, ...), N ≥ 1; a row of none is the id 0."""
        rows = [ids or [0] for ids in rows]
        read = self.runtime.read(rows, lambda output, ids, mask, _: output(ids, mask).float(), borders)
        return of_one(self.model, torch.stack(read))
