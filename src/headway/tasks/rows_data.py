"""The data of tasks of rows: texts, pairs, sentences or images, each with something to learn.

All of them are read, split, tokenised, cut and measured by the one rule of ``RowsData``; a task says what is its own.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import nn

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.data.batches.batching import Examples
from headway.data.records.labels import Labelled
from headway.data.records.split import drawn
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.fine_tune import for_classification, for_token_classification
from headway.hub.kept_entries import keep
from headway.models.heads import CLASSES, Gives
from headway.models.initialise import initialise
from headway.models.own import OwnConfig
from headway.models.transformer import Decoder, Encoder
from headway.tasks.base import TextTask
from headway.tasks.baselines import LINEAR, fitted_rows
from headway.tasks.checks import own_model
from headway.tasks.held_out import Parts, in_parts
from headway.tasks.inputs import checked_length, cut_warning, usual_longest
from headway.tasks.inspection import MOST_LOOKED_AT, worst_rows
from headway.tasks.rows import encoded_texts, tokenizer_for
from headway.tasks.task import SHOWN, FinalMetrics, TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import Base, prepared_base
from headway.training.option_fields import flag
from headway.training.plan import Plan, decision_of
from headway.training.sizing.architecture import family_of_layout
from headway.training.sizing.presets import encoder_plan, fine_tune_rows_plan

LOOKING = 0.02
"""The share of the time in which held-out rows are looked at for the report."""
LONGEST = 512
"""Tokens: texts are not read further than this unless ``--length`` says so."""
OF_TRANSFORMERS = ("model", "heads", "preset", "extend_vocab")
"""Options that a model of a task's own does not have."""


class RowsData(TaskData):
    """Rows to train on and held-out ones, tokenised and cut, with what the files say of them."""

    parts: Parts
    encoded: tuple[Any, Any]
    """rows to train on and held-out ones as ids, which have ``lengths`` and ``examples``"""
    longest: int
    """the tokens of a text that are read"""
    counts: Mapping[str, int]
    """how many rows have each class, where there are classes, and ``recorded``, what headway.json says besides"""
    recorded: dict[str, Any]
    tokenizer_kind: ClassVar[str] = "word"
    """``--tokenizer`` where it is not given"""
    lowercase: ClassVar[bool | None] = None
    """whether a new tokenizer reads capitals as small letters; None: as usual for its kind"""
    held_out_by: str = "10 %, duplicates on one side"
    """how rows are held out, in words"""
    most_held_out: int | None = None
    head: ClassVar[Gives | None] = Gives.ROW
    """what a head gives, where a new model needs one"""

    def __init__(self, given: TaskInputs):
        self.options, self.base, self.progress, self.found = given.options, given.base, given.progress, given.found
        self.labels, self.counts, self.recorded = [], {}, {}
        if given.base is not None:
            self.base = self.checked(given.base)
            given = replace(given, base=self.base)
        rows, other = self.read(given)
        if (weights := self.options.for_tasks.weight_column) is not None:
            rows = rows.weighed(weights)
        self.parts = in_parts(given, rows, other, self.most_held_out)
        train, held_out = self.parts.train, self.parts.held_out
        self.warnings = [*rows.warnings, *self.parts.warnings]
        vocabulary = self.learn_vocabulary(given, train)
        self.encode(train, held_out)
        facts = {**self.parts.facts(given, self.unit, self.held_out_by), **self.facts_of(rows)}
        self.facts = {**facts, "warnings": self.warnings, **vocabulary}
        self.baselines: list[dict[str, Any]] = []
        self.of_baselines: dict[str, np.ndarray] = {}
        self.measure_baselines()

    def checked(self, base: Base) -> Base:
        """The base, as the task reads it.  Raises InputError for one that it cannot start from."""
        if not isinstance(base.model, Encoder | Decoder):
            raise InputError(f"{base.path}: is no encoder and no decoder of texts; name one with --from.")
        return base

    @abstractmethod
    def read(self, given: TaskInputs) -> tuple[Any, Any]:
        """The rows of the files, and those of the validation files or None.  Raises InputError."""

    @abstractmethod
    def encode(self, train: Any, held_out: Any) -> None:
        """Set ``encoded`` and ``longest``, and add warnings."""

    @abstractmethod
    def measure_baselines(self) -> None:
        """Add to ``baselines``, ``of_baselines`` and the warnings."""

    def facts_of(self, rows: Any) -> dict[str, Any]:
        """What headway.json says of the values of all rows."""
        return {**({"classes": self.counts} if self.counts else {}), **self.recorded}

    def texts(self, rows: Any) -> tuple[Iterable[str], int]:
        """All texts of some rows, as often as they are asked for, and how many characters they have."""
        return rows, int(rows.lengths.sum(dtype=np.int64))

    def learn_vocabulary(self, given: TaskInputs, rows: Any) -> dict[str, Any]:
        """Set the tokenizer: that of the run, of the base, or a new one; what to record of it."""
        texts, characters = self.texts(rows)
        new = partial(self.new_tokenizer, rows)
        self.tokenizer, facts = tokenizer_for(given, texts, new, out_of=characters)
        return facts

    def new_tokenizer(self, rows: Any) -> Tokenizer:
        """The tokenizer of a model from scratch."""
        kind, vocab = self.options.data.tokenizer or self.tokenizer_kind, self.options.data.vocab
        vocab = self.usual_vocabulary(kind, rows) if vocab is None else vocab
        texts, characters = self.texts(rows)
        role = "encoder" if self.head is not None else "translator"
        return train_tokenizer(texts, kind, vocab, role=role, lowercase=self.lowercase, out_of=characters)

    def usual_vocabulary(self, kind: str, rows: Any) -> int | None:
        """``--vocab`` where it is not given; None: as for every text of that size."""
        return None

    def reading(self, usual: int, most: int | None = None) -> int:
        """How many tokens are read: ``usual`` ones or as ``--length`` says, at most what a base reads (``most``)."""
        longest = self.options.data.length or usual
        if self.base is None:
            return longest
        return min(longest, checked_length(self.options, most or self.base.config.max_length))

    @property
    def outputs(self) -> int:
        """How many numbers a new head gives."""
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """The tokens of each row to train on, int64 (N,)."""
        return self.encoded[0].lengths

    def plan(self, seconds: float | None) -> Plan:
        if self.base is None:
            return encoder_plan(self.options, self.tokenizer.vocab_size, self.lengths, self.longest)
        plan = fine_tune_rows_plan(self.options, self.base.config, self.lengths, self.longest)
        if self.head not in CLASSES:
            return plan
        return self.with_head_decision(plan)

    def with_head_decision(self, plan: Plan) -> Plan:
        """A plan that says what a model from a base has for a head; without labels it gives numbers."""
        new, base = self.new_head, "" if self.base is None else self.base.path
        value = "a new one, which starts untrained" if new else f"the one of {base}"
        if not self.labels:
            why = f"{base} is {'no' if new else 'a'} model for {self.found.task}"
            return plan.decided("head", value, why, "--from")
        value += "" if new else f", with its {len(self.labels):,} classes"
        why = f"{f'{base} does not know' if new else 'it knows'} all labels of the data by their names"
        return plan.decided("head", value, why, "--from")

    def build(self, plan: Plan) -> nn.Module:
        if self.base is None:
            new_head = family_of_layout(self.options).head
            head = new_head(self.head or Gives.ROW, plan.config, self.outputs, plan.config.dropout)
            return initialise(Encoder(plan.config, head), plan.seed)
        model: Any = self.base.model
        if self.new_head:  # else it goes on with its own
            with_head = for_classification if self.head is Gives.ROW else for_token_classification
            with_head(model, self.outputs, dropout=plan.config.dropout, seed=plan.seed)
        return prepared_base(model, plan)

    def examples(self) -> tuple[Examples, Examples]:
        """What is trained on and what is held out, with the targets."""
        train, held_out = self.encoded
        return train.examples, held_out.examples

    def batch_source(self, plan: Plan) -> BatchSource:
        return RowBatches(*self.examples(), plan.batch_tokens, plan.seed, max_examples=plan.batch_size)


class NumberData(RowsData):
    """The rows of a ``TextTask``: texts with a value each."""

    def __init__(self, task: TextTask, given: TaskInputs):
        self.task, self.reads_pairs = task, task.reads_pairs
        self.new_head = given.base is not None and (given.base.facts or {}).get("task") != task.spec.name
        super().__init__(given)
        self.train, self.validation = (part.ids for part in self.encoded)

    @classmethod
    def of_column(cls, task: TextTask, given: TaskInputs, rows: Labelled) -> Self:
        """What is learnt of one of several columns of rows that are read already, and whose texts others encode."""
        column = cls.__new__(cls)
        column.task, column.found, column.base, column.options = task, given.found, None, given.options
        column.labels, column.warnings, column.baselines, column.of_baselines = [], [], [], {}
        column.counts, column.recorded = {}, {}
        column.learn(given, rows)
        return column

    def read(self, given: TaskInputs) -> tuple[Labelled, Labelled | None]:
        task = self.task
        if task.has_own_head and self.base is not None and not isinstance(self.base.model, Encoder):
            raise InputError(f"{self.base.path}: is no encoder, and the head of {task.spec.name} is for encoders.")
        if not isinstance(given.source, Table):
            raise InputError(f"{given.source.name}: {task.spec.name} needs {task.needs}.")
        if self.base is None and task.has_own_model and (wrong := self.options.given(OF_TRANSFORMERS)):
            raise InputError(f"--{flag(wrong[0])} is for Transformers; {task.spec.name} trains a model of its own.")
        rows, held_out = task.rows_of(given.source, given.found, self.options), given.held_out
        self.learn(given, rows)
        return rows, task.rows_of(held_out, given.found, self.options, self) if isinstance(held_out, Table) else None

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        """Find what the task knows of its targets (its labels) in the rows of the files.  Raises InputError."""

    @property
    def outputs(self) -> int:
        return len(self.labels) or self.task.outputs

    def values(self, rows: Labelled) -> np.ndarray:
        """The target of each row, (N,) or (N, C)."""
        return self.task.targets(rows, self.found, self)

    def set_targets(self, train: Labelled, held_out: Labelled) -> None:
        """Set what is wanted of the rows to train on and of the held-out ones."""
        self.train_targets, self.targets = self.values(train), self.values(held_out)

    def encode(self, train: Labelled, held_out: Labelled) -> None:
        self.set_targets(train, held_out)
        whole = encoded_texts(train, self.tokenizer), encoded_texts(held_out, self.tokenizer)
        lengths = whole[0].lengths
        self.longest = self.reading(usual_longest(lengths, LONGEST))
        self.encoded = whole[0].cut(self.longest), whole[1].cut(self.longest)
        self.warnings += cut_warning(lengths, self.longest)

    def examples(self) -> tuple[Examples, Examples]:
        train, held_out = self.encoded
        return train.examples(self.train_targets), held_out.examples(self.targets)

    def measure_baselines(self) -> None:
        for name, guess in self.guesses().items():
            metrics, self.of_baselines[name] = self.judged(guess)
            self.baselines.append({"name": name, **metrics})

    def guesses(self) -> dict[str, Any]:
        """What simple models say of the held-out rows, by their names; of one number the mean of the training rows."""
        mean = np.full_like(self.targets, self.train_targets.mean())
        try:
            self.judged(mean)
        except (RuntimeError, IndexError, ValueError):
            return {}  # the loss is of other outputs
        return {"the mean": mean}

    def judged(self, guess: Any) -> tuple[dict[str, Any], np.ndarray]:
        """The metrics of one of the ``guesses``, and what each row came to, float64 (N, 2)."""
        targets, each = torch.tensor(self.targets), list[np.ndarray]()
        return self.objective(None).measured(torch.tensor(guess, dtype=targets.dtype), targets, each), each[0]

    def linear_guess(self, learnt: Callable[[list[str], np.ndarray, Labelled], np.ndarray]) -> dict[str, np.ndarray]:
        """What a linear model on n-grams says of the held-out rows, by its name; nothing where it would take too long.

        ``learnt`` is given texts with their targets, and the texts to guess.
        """
        train, held_out = self.parts.train, self.parts.held_out
        sample, said = fitted_rows(train.lengths, self.outputs)
        self.warnings += [said] if said else []
        if not len(sample):
            return {}
        return {LINEAR: learnt(list(train.part(sample)), self.train_targets[sample], held_out)}

    def objective(self, plan: Plan | None) -> Any:
        return self.task.measure(self)

    def final_metrics(self, model: nn.Module, limit: float | None) -> FinalMetrics | None:
        """The held-out rows that the report shows."""
        silent = self.tokenizer.silent_ids
        some: Any = [] if self.reads_pairs else drawn(len(self.validation), MOST_LOOKED_AT)
        looked_at = [at for at in some if not silent.issuperset(self.validation[at])]  # those answered
        if not looked_at:
            return None

        def look(count: int) -> dict[str, Any]:
            some = [looked_at[at] for at in drawn(len(looked_at), count)]
            return self.telling(model, some, list(self.parts.held_out.part(np.array(some))))

        began, few = time.perf_counter(), min(len(looked_at), 16)
        look(few)
        each = (time.perf_counter() - began) / few
        most = len(looked_at) if limit is None else min(len(looked_at), max(few, int(LOOKING * limit / each)))
        return FinalMetrics(most * each, lambda: {SHOWN: look(most)})

    def telling(self, model: nn.Module, chosen: Sequence[int], texts: Sequence[str]) -> dict[str, Any]:
        """The rows that tell most among some of the held-out ones, given by their numbers and their texts."""
        return worst_rows(self, model, chosen, texts)

    def plan(self, seconds: float | None) -> Plan:
        if self.base is None and self.task.has_own_model:
            return self._own_plan()
        plan = super().plan(seconds).but(token_dropout=0.0, label_smoothing=0.0)
        if not self.task.has_own_head:
            return plan
        sizes = {name: plan.model[name] for name in ("vocab_size", "d_model", "n_layers", "max_length", "dropout")}
        return plan.but(model=asdict(OwnConfig(self.task.spec.name, **sizes, more=plan.model)))

    def _own_plan(self) -> Plan:
        asked, rows = self.options, len(self.train)
        whole = asked.but(d_model=None, layers=None)  # the width of an encoder has rules that this model has not
        plan = encoder_plan(whole, self.tokenizer.vocab_size, self.lengths, self.longest)
        width, layers = asked.architecture.d_model or OwnConfig.d_model, asked.architecture.layers or OwnConfig.n_layers
        sizes = {"d_model": width, "n_layers": layers, "max_length": self.longest, "dropout": plan.config.dropout}
        config = OwnConfig(self.task.spec.name, self.tokenizer.vocab_size, **sizes)
        size = f"{config.described}, width {width}, {self.longest} tokens"
        flags = "--d-model, --layers, --length, --dropout"
        decisions = [decision_of("model", size, f"{rows:,} texts", flags), *plan.decisions[1:]]
        precision = asked.runtime.precision or "float32"
        return plan.but(model=asdict(config), token_dropout=0.0, precision=precision, decisions=decisions)

    def build(self, plan: Plan) -> nn.Module:
        if self.task.has_own_head or (self.base is None and self.task.has_own_model):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(plan.seed)
                own: Any = own_model(self.task, plan.config)
            if not self.task.has_own_head:
                return own
            if self.base is None:
                initialise(own.encoder, plan.seed)
                return own
            own.encoder = self.base.model
            own.encoder.head = own.encoder.pooler = None
            return prepared_base(own, plan)
        model = super().build(plan)
        if self.task.spec.problem is not None:
            keep(model, problem_type=self.task.spec.problem)
        return model
