"""A task of texts with a number each: all but its loss and its answers, and, where it wants one, its own model.

class Stars(TextTask):
    spec = SPEC
    objective = Error()                     # a ``losses.RowLoss``

    def new_model(self, config): ...        # a model of ids and mask (B, T), which has an output for each text

Without ``new_model`` a new model is an encoder with a head of ``outputs`` numbers for each text, and so is one that
starts from a pretrained model (``--from``).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.examples import Examples
from headway.data.open.columns import number
from headway.data.records.labels import Labelled, labelled
from headway.data.records.table import Table
from headway.errors import InputError, shown
from headway.hub.directory import model_config
from headway.hub.fine_tune import for_classification
from headway.io.quantities import counted
from headway.models.heads import Gives, gives, n_outputs
from headway.models.initialise import initialise
from headway.models.own import OwnConfig
from headway.models.transformer import Decoder, Encoder
from headway.runtime.runtime import Runtime
from headway.tasks.checks import Material, MaterialInputs, made_up_table, own_model
from headway.tasks.held_out import EvaluationInputs, Parts, in_parts
from headway.tasks.inputs import beginnings, checked_length, cut_warning, reading_length, text_list, usual_longest
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
        tokenizer = Tokenizer.load(directory, rows=config.vocab_size)
        return TextPipeline(self, model, tokenizer, facts.get("plan", {}).get("length"))

    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        table, found = given.table(f"a model for {self.spec.name} is measured on {self.needs}"), given.found
        rows = self.rows_of(table, found.text_column, found.label_column, given.options)
        rows = given.sampled(given.held_out(rows))
        ids = encoded_texts(rows, pipe.tokenizer).cut(pipe.max_length, pipe.tokenizer.special_ids)
        examples = Examples(ids, self.values(rows), TargetKind.ROW)
        metrics = measured_rows(pipe, self.objective, examples, given.each)
        return {**metrics, "examples": len(rows)}

    def trial(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[RowLoss, Batch]:
        return self.objective, Examples(inputs, np.arange(len(inputs), dtype=float), TargetKind.ROW).together()

    def made_up(self, pipe: Any, given: MaterialInputs) -> Material:
        return made_up_table(
            pipe, given.folder, lambda n, text, _: {"text_column": text, "label_column": str(1 + n % 5)}
        )

    def values(self, rows: Labelled) -> np.ndarray:
        """The value of each row, float32 (N,); NaN where a cell means none."""
        return np.array([self.value(written) for written in rows.classes], dtype=np.float32)[rows.targets]

    def rows_of(self, table: Table, text: str | None, value: str | None, options: TrainOptions) -> Labelled:
        """The rows that have a text and a value; other rows raise InputError."""
        policy = options.data.on_bad_row
        rows = labelled(table, text or "", value or "", on_bad_row=policy, to_learn=False, as_labels=False)
        missing = np.isnan(self.values(rows))
        wrong = np.flatnonzero(missing)
        if len(wrong) and policy != "skip":
            written = rows.classes[rows.targets[wrong[0]]]
            raise InputError(
                f"{table.name}: column {value!r} holds {shown(written)}, which is no value for {self.spec.name} "
                f"({table.places(rows.index[wrong].tolist())}). Correct it, or pass --on-bad-row skip."
            )
        if len(wrong):
            left_out = (
                f"{counted(len(wrong), 'row')} without a value left out ({table.places(rows.index[wrong].tolist())})"
            )
            kept = rows.part(np.flatnonzero(~missing))
            rows = replace(kept, warnings=[*rows.warnings, left_out])
        if not len(rows):
            raise InputError(f"{table.name}: no row has a value for {self.spec.name} in column {value!r}.")
        return rows


class TextData(TaskData):
    """Texts with a value each: split, tokenised and cut by one rule for all such tasks."""

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
        self.longest = self.options.data.length or usual_longest(encoded[0].lengths, LONGEST)
        if self.base is not None:
            self.longest = min(self.longest, checked_length(self.options, self.base.config.max_length))
        self.train, self.validation = (part.cut(self.longest, self.tokenizer.special_ids) for part in encoded)
        self.warnings = [*rows.warnings, *self.parts.warnings, *cut_warning(encoded[0].lengths, self.longest)]
        facts = {**self.parts.facts(given, "rows", self.held_out_by), **self.facts_of(rows)}
        self.facts = {**facts, "warnings": self.warnings, **vocabulary.facts}

    @abstractmethod
    def read(self, given: TaskInputs) -> tuple[Labelled, Labelled | None]:
        """The rows of the files, and those of the validation files.  Raises InputError."""

    @abstractmethod
    def values(self, rows: Labelled) -> np.ndarray:
        """The target of each row, (N,) or (N, C)."""

    def new_tokenizer(self, texts: Labelled, characters: int) -> Tokenizer:
        """The tokenizer of a model from scratch, from texts of so many characters."""
        kind, vocab = self.options.data.tokenizer or "word", self.options.data.vocab
        return train_tokenizer(texts, kind, vocab, role="encoder", out_of=characters)

    def facts_of(self, rows: Labelled) -> dict[str, Any]:
        """What headway.json says of the values of all rows."""
        return {}

    def batch_source(self, plan: Plan) -> BatchSource:
        train = Examples(self.train, self.train_targets, TargetKind.ROW)
        held_out = Examples(self.validation, self.targets, TargetKind.ROW)
        return RowBatches(train, held_out, plan.batch_tokens, plan.seed, max_examples=plan.max_examples)


class NumberData(TextData):
    """The rows of a ``TextTask``."""

    def __init__(self, task: TextTask, given: TaskInputs):
        self.task, self.labels = task, []
        self.new_head = given.base is not None and (given.base.facts or {}).get("task") != task.spec.name
        super().__init__(given)
        self.baselines = []
        self.of_baselines = self._guess_the_mean()

    def read(self, given: TaskInputs) -> tuple[Labelled, Labelled | None]:
        task, columns = self.task, (given.found.text_column, given.found.label_column)
        if not isinstance(given.source, Table):
            raise InputError(f"{given.source.name}: {task.spec.name} needs {task.needs}.")
        if self.base is None and task.has_own_model and (wrong := self.options.given(OF_TRANSFORMERS)):
            raise InputError(f"--{flag(wrong[0])} is for Transformers; {task.spec.name} trains a model of its own.")
        if self.base is not None and not isinstance(self.base.model, Encoder | Decoder):
            raise InputError(f"{self.base.path}: is no encoder and no decoder of texts; name one with --from.")
        rows, held_out = task.rows_of(given.source, *columns, self.options), None
        if isinstance(given.held_out, Table):
            held_out = task.rows_of(given.held_out, *columns, self.options)
        return rows, held_out

    def values(self, rows: Labelled) -> np.ndarray:
        return self.task.values(rows)

    def _guess_the_mean(self) -> dict[str, np.ndarray]:
        """Add the baseline that answers the mean of the training rows, for a model of one number; its results."""
        targets = torch.tensor(self.targets)
        try:
            part = self.task.objective.of(torch.full_like(targets, float(self.train_targets.mean())), targets)
        except (RuntimeError, IndexError, ValueError):
            return {}  # the loss is of other outputs
        self.baselines.append({"name": "the mean", **averages([part])})
        return {"the mean": units(part)}

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
        outputs, dropout = self.task.outputs, plan.config.dropout
        if self.base is not None:
            base: Any = self.base.model
            if self.new_head:  # else it goes on with its own
                for_classification(base, outputs, dropout=dropout, seed=plan.seed)
            return prepared_base(base, plan)
        if not self.task.has_own_model:
            head = family_of_layout(self.options).head(Gives.ROW, plan.config, outputs, dropout)
            return initialise(Encoder(plan.config, head), plan.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(plan.seed)
            return own_model(self.task, plan.config)

    def objective(self, plan: Plan) -> RowLoss:
        return self.task.objective


class TextPipeline:
    """The model of a task of texts, its tokenizer and its answers."""

    def __init__(self, task: TextTask, model: nn.Module, tokenizer: Tokenizer, length: int | None):
        self.task, self.model, self.tokenizer = task.spec.name, model, tokenizer
        self.runtime, self.max_length = Runtime(model), reading_length(model, tokenizer, length)
        self._answers: Callable[[Tensor], list[Any]] = task.answers

    def __call__(self, text: str | Iterable[str]) -> Any:
        """The answer to a text, or a list of them, in order; a long text is cut as in training, with a warning."""
        texts, alone = text_list(text)
        if not texts:
            return []
        rows = [ids or [0] for ids in beginnings(self.tokenizer, texts, self.max_length)]
        read = self.runtime.read(rows, lambda output, ids, mask, _: output(ids, mask).float())
        answers = self._answers(of_one(self.model, torch.stack(read)))
        return answers[0] if alone else answers
