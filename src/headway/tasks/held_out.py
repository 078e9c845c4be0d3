"""Rows to train on and held-out ones: what a run makes of its data, and what a saved model is measured on."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from headway.data.open.columns import COLUMNS, Detected
from headway.data.records.corpus import Corpus
from headway.data.records.labels import Labelled
from headway.data.records.repeats import shared, unknown
from headway.data.records.split import RowView
from headway.data.records.table import Table
from headway.data.records.text_pairs import TextPairs
from headway.errors import InputError
from headway.io.quantities import counted
from headway.training.options import TrainOptions, split_seed

if TYPE_CHECKING:
    from headway.tasks.task import TaskInputs

Rows = TypeVar("Rows", bound=RowView)
Source = TypeVar("Source", bound=Corpus | Table)

FEW = 10
"""Held-out rows that must remain where those that the base was trained on are kept out; of few rows a tenth."""


@dataclass(frozen=True)
class Parts:
    """Rows to train on and held-out ones, the hashes of what the base was trained on, and ``data.rows``."""

    train: Any
    held_out: Any
    known: np.ndarray
    counts: dict[str, int]
    warnings: list[str]

    def facts(self, given: "TaskInputs", unit: str, drawn: str) -> dict[str, Any]:
        """What headway.json says of a table of these rows; held-out ones are ``drawn`` so unless a file has them."""
        source, columns = given.source, {name: getattr(given.found, name) for name in COLUMNS}
        origin = drawn if given.held_out is None else given.held_out.name
        return {
            "inputs": source.inputs if isinstance(source, Table) else [str(path) for path in source.paths],
            "fingerprint": source.fingerprint,
            **{name: column for name, column in columns.items() if column is not None},
            **({"label_columns": list(given.found.label_columns)} if given.found.label_columns else {}),
            "train": f"{self.counts['trained']:,} {unit}",
            "validation": f"{self.counts['measured']:,} {unit} ({origin})",
        }


def in_parts(given: "TaskInputs", rows: Any, other: Any, most: int | None = None) -> Parts:
    """Split the rows (``records.split.RowView``), or hold out ``other`` if there are any.

    What the base was trained on is not held out, and of the rows ``most`` at most.

    Raises InputError where too few rows are left.
    """
    known = given.before.get(given.found.task, np.zeros(0, dtype=np.int64))
    for seed in given.repeated:
        known = np.union1d(known, rows.hashes if seed < 0 else rows.split(seed, known[:0], most)[0].hashes)
    warnings = [f"{base} does not say what it was trained on: held-out rows may be among that" for base in given.silent]
    whole = rows if other is None else other
    count = int(np.isin(whole.hashes, known).sum())
    train, held_out = (rows, unknown(other, known)) if other else rows.split(given.options.seed_of_split, known, most)
    if count and len(held_out) < min(FEW, len(whole) // 10):
        raise InputError(
            f"{count:,} of {len(whole):,} rows were trained on by "
            f"{given.options.fine_tuning.from_model or given.options.data.known_to}, and the {len(held_out):,} others "
            "are too few to measure on; name other data with --validation."
        )
    if count:
        kept = "and are not measured" if other else "and stay in training"
        warnings.append(f"{count:,} of {len(whole):,} rows were trained on before {kept}")
    if other and given.held_out is not None and (lost := rows_read(given.held_out, other))["skipped"]:
        warnings.append(f"{given.held_out.name}: {lost['skipped']:,} of {lost['read']:,} rows left out")
    if both := len(shared(train.hashes, held_out.hashes)) if other else 0:
        share = f"{both:,} of {len(held_out):,} validation rows ({both / len(held_out):.0%})"
        warnings.append(f"{share} also occur in training: their scores will be too high")
    if getattr(train, "weights", None) is not None:  # which say which rows count; held-out ones count alike
        both = len(train) + len(held_out)
        train, held_out = with_weight(train), with_weight(held_out)
        if left_out := both - len(train) - len(held_out):
            warnings.append(f"{counted(left_out, 'row')} of weight 0 left out")
    counts = {**rows_read(given.source, rows), "known": count, "trained": len(train)}
    counts |= {"held_out": len(held_out), "measured": len(held_out)}
    return Parts(train, held_out, known, counts, warnings)


def with_weight(rows: Labelled) -> Labelled:
    """The rows without those of weight 0, if they have weights.  Raises InputError where none is left."""
    some = np.arange(len(rows)) if rows.weights is None else np.flatnonzero(rows.weights)
    if not len(some):
        raise InputError(f"{rows.name}: all of the rows to train on, or all that are held out, have the weight 0.")
    return rows if len(some) == len(rows) else rows.part(some)


@dataclass(frozen=True)
class EvaluationInputs:
    """The data that a saved model is measured on."""

    source: Corpus | Table
    found: Detected
    facts: dict[str, Any]
    """headway.json of the run, or empty"""
    options: TrainOptions
    same: bool
    """whether these are the run's training files, of which only the held-out part is measured"""
    whole: bool = False
    """whether all of it is measured, even where training measured only some windows"""
    most: int | None = None
    """how many rows or windows are measured at most, spread evenly over all; None: as many as there are"""
    trained_on: Callable[[], Corpus | Table | None] = lambda: None
    """reads the training data of the run; None where they are missing or have changed"""
    each: list[np.ndarray] = field(default_factory=list)
    """receives the result of each unit (``Objective.evaluate``), in any order; for classes, in the original order"""
    baselines: list[dict[str, Any]] = field(default_factory=list)
    """receives the baselines on the same data, and ``of_baselines`` their results on each unit"""
    of_baselines: dict[str, np.ndarray] = field(default_factory=dict)

    known: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """hashes of texts that the runs before it were trained on, which are not measured of the run's own data"""
    trained_texts: Any = None
    """hashes of the texts that the run was trained on, int64 (N,); None where it does not say"""
    validation: bool = False
    """whether these are the run's validation files"""

    counts: dict[str, int] = field(default_factory=dict)
    """receives what became of the rows (``rows_read``, ``quantities.rows_in_words``)"""

    def held_out(self, rows: Rows, most: int | None = None) -> Rows:
        """The rows to measure: those that the run held out, ``most`` at most, of its own data."""
        self.counts.update(rows_read(self.source, rows))
        if self.validation:
            measured = unknown(rows, self.known)
            self.counts["known"] = len(rows) - len(measured)
        else:
            measured = rows.split(split_seed(self.before), self.known, most)[1] if self.same else rows
            if self.same and (weights := self.before.get("weight_column")) and isinstance(measured, Labelled):
                measured = with_weight(measured.weighed(weights))
        others = bool(self.facts) and not self.same
        if others and self.trained_texts is None:
            who = f"the run does not say what it was trained on: rows of {self.source.name} may be among that"
            warnings.warn(who, stacklevel=4)
        elif others and (both := len(shared(self.trained_texts, measured.hashes))):
            what, are = ("first texts", "may be") if isinstance(measured, TextPairs) else ("rows", "are")
            message = f"{both:,} of {len(measured):,} {what} also occur in the training data: their scores"
            warnings.warn(f"{message} {are} too high", stacklevel=4)
        if self.same or self.validation:
            self.counts["held_out"] = len(measured)
        self.counts["measured"] = len(measured)
        return measured

    @property
    def found_in_training(self) -> Detected:
        """The columns of the training data."""
        data = self.facts.get("data", {})
        columns = {name: data.get(name) for name in COLUMNS}
        return replace(self.found, **columns, label_columns=tuple(data.get("label_columns", ())))

    def trained_rows(self, read: Callable[[Any, Detected, str], Rows], most: int | None = None) -> Rows | None:
        """The rows that the run was trained on, by what reads a source, its columns and ``--on-bad-row``.

        None where the files are missing or have changed.
        """
        source = self.trained_on()
        if source is None:
            return None
        rows = read(source, self.found_in_training, self.before.get("on_bad_row") or "error")
        return self.learnt(rows, most)

    def learnt(self, rows: Rows, most: int | None = None) -> Rows:
        """Of the rows of the run's training files, those that it was trained on."""
        return rows if self.facts.get("validation") else rows.split(split_seed(self.before), self.known, most)[0]

    @property
    def before(self) -> dict[str, Any]:
        """The options of the run."""
        return self.facts.get("options", {})

    @property
    def plan(self) -> dict[str, Any]:
        """The plan of the run."""
        return self.facts.get("plan", {})

    def stride(self, windows: int) -> int:
        """Which of so many windows are measured: every n-th."""
        every = int(self.plan.get("validation_every", 1)) if self.same and not self.whole else 1
        return every if self.most is None else max(every, -(-windows // self.most))

    def sampled(self, rows: Rows) -> Rows:
        """The rows to measure, of those that are given: all, or ``most`` of them."""
        if self.most is not None and len(rows) > self.most:
            rows = rows.part(np.linspace(0, len(rows) - 1, self.most).astype(np.int64))
        self.counts["measured"] = len(rows)
        return rows

    def length(self, longest: int) -> int:
        """The length in tokens that the run was measured at; a base may read more."""
        return min(longest, int(self.plan.get("length", longest)))

    def source_as(self, kind: type[Source], what: str) -> Source:
        """The source as a table or as running text.  Raises InputError, with ``what`` a model is measured on."""
        if not isinstance(self.source, kind):
            raise InputError(f"{self.source.name}: {what}.")
        return self.source


def rows_read(source: Corpus | Table, rows: Any) -> dict[str, int]:
    """How many rows a source has, and how many of them are left out, since they lack what is learnt or malformed."""
    read = len(source) + len(source.skipped) if isinstance(source, Table) else len(rows)
    return {"read": read, "skipped": read - len(rows)}
