"""A scaling study on a text: plan, runs, results, kept in one directory so that it can be stopped and resumed."""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from headway.data.records.corpus import Corpus
from headway.data.stream.streamed import Streamed
from headway.errors import InputError, RunFailed
from headway.io import quantities
from headway.io.atomic_write import write_json, write_whole
from headway.io.csv_text import as_csv
from headway.io.quantities import duration
from headway.science.runner import Within, check_free, check_same, kept
from headway.science.scaling.grid import KINDS, SNAPSHOTS, Cell, Grid, Kind, Text, plan_grid, shapes
from headway.science.scaling.law import COUNTS, Run, read_points
from headway.science.speeds import faster_steps, measured_speed
from headway.tasks.registry import NAMES, named, task_named
from headway.tasks.task import TaskInputs
from headway.training.options import TrainOptions
from headway.training.progress import NoProgress, Progress
from headway.training.store.contents import read_log
from headway.training.store.facts import read_facts
from headway.workflows.input import read_input, validation_input
from headway.workflows.train.run import run_training

PLAN, RESULTS, REPORT, RUNS = "plan.json", "results.csv", "scaling.json", "runs"
"""What is in its directory: the plan, the points, what ``--json`` prints, and a run directory for each run."""
TASK = "language_modeling"
"""What is studied unless another task is named."""
TIMED = (1, 2, 4, 6, 10)
"""Number of heads of the timed models."""
SHORT, LONG = 128, 256
"""Tokens of a sequence: of studies below LONG_TIME, and of longer ones."""
LONG_TIME = 3600.0
ENDING = 8.0
"""Seconds kept for the fit, the plots and leaving."""
TOKENIZER = "char"
"""A small vocabulary: with thousands of subwords nearly all of a small model would be its table of embeddings."""
ASKED = ("tokenizer", "vocab", "length", "batch_tokens", "precision", "encoding", "seed")
"""Options that cannot change during a study."""
RESERVE = 1.15
"""The time that is kept for the run that is left out, over what it should take."""
TRUSTED = 0.2
"""What was planned counts as if this share of all runs had taken the time that it says: one run that was slow, the
first above all, does not make all others seem too long."""


@dataclass
class Study:
    """What is studied, and where it is kept."""

    inputs: Sequence[str | Path]
    options: TrainOptions
    out: Path | None = None
    """nothing is written without it"""
    validation: Sequence[str | Path] = ()
    progress: Progress = field(default_factory=NoProgress)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        data = self.options.data
        self.options = self.options.but(task=data.task or TASK, tokenizer=data.tokenizer or TOKENIZER)

    @property
    def task(self) -> str:
        """The name of the task of its models."""
        return str(self.options.data.task)

    def decide(self, wanted: float) -> Grid:
        """The grid for ``wanted`` seconds from the start: that which ``out`` holds, else a new one, kept there.

        Raises InputError, also where ``out`` holds a study of other things.
        """
        self.progress.phase("reading")
        options, length = self.options, self.options.data.length or (SHORT if wanted < LONG_TIME else LONG)
        scaling = task_named(named(self.task)).scaling()
        if scaling is None:
            able = " and ".join(name for name in NAMES if task_named(name).scaling() is not None)
            raise InputError(f"--task {self.task}: scale is for {able}.")
        source, detected = read_input(self.inputs, options)
        if not isinstance(source, Corpus) or isinstance(source, Streamed):
            raise InputError("scale is for running text: name .txt files or a folder of them.")
        held_out = validation_input(self.validation, options, detected)
        asked = {name: options.value(name) for name in ASKED} | {"fingerprint": source.fingerprint, "task": self.task}
        asked["validation"] = None if held_out is None else held_out.fingerprint
        if self.out is not None and (before := kept(self.out / PLAN, "study")) is not None:
            try:
                recorded, grid = {"task": TASK, **before["asked"]}, Grid.from_plain(before["grid"])
            except (KeyError, TypeError) as error:
                what = f"{self.out / PLAN}: cannot be read ({error})"
                raise InputError(f"{what}; name another directory with --out.") from None
            check_same(self.out, "study with another", recorded, asked)
            return grid
        task_inputs = TaskInputs(source, held_out, detected, options, None, None, self.progress)
        data: Any = task_named(self.task).open_data(task_inputs)
        text = Text(data.n_tokens, len(data.validation), data.tokenizer.vocab_size)
        self.progress.phase("timing")
        batch = options.optimisation.batch_tokens

        def grid_of(kind: Kind) -> Grid:
            timed = [shape for shape in shapes(text.vocab_size, length, kind, scaling) if shape.heads in TIMED]
            precision = options.runtime.precision or faster_steps(timed[2], text.vocab_size, length, scaling)
            speed = measured_speed(timed, text.vocab_size, length, precision, scaling)
            left = wanted - (time.monotonic() - self.started) - ENDING
            how: dict[str, Any] = {"precision": precision, "batch_tokens": batch, "before": wanted - left}
            return plan_grid(text, left, speed, length=length, kind=kind, scaling=scaling, **how)

        for kind in KINDS:
            try:
                grid = grid_of(kind)
            except InputError as error:
                if kind is KINDS[0]:
                    raise _refused(error, partial(grid_of, kind)) from None
                break  # too little time for that kind: it remains with the one before
            if grid.cells[-1].width <= kind.widest:
                break
        if self.out is not None:
            try:
                self.out.mkdir(parents=True, exist_ok=True)
                write_json(self.out / PLAN, {"asked": asked, "text": vars(text), "grid": asdict(grid)})
            except OSError as error:
                why = error.strerror or error
                raise InputError(f"{self.out}: results cannot be written there ({why}).") from None
        return grid

    def make(self, grid: Grid, end: float) -> tuple[list[Run], list[str]]:
        """Make the runs that are missing, and write the points; the runs, and notes on those left out.

        Runs go from the smallest compute to the largest, until ``end`` of ``time.monotonic``.  One is skipped if it
        fails, or if the time is too short for it and the run that the fit leaves out.  Raises RunFailed if the last
        run fails, and Interrupted after Ctrl-C, when all is saved.
        """
        out = self.out or Path()
        *cells, last = grid.cells
        known = TRUSTED * grid.seconds
        taken, expected, number = 0.0, 0.0, 0
        failed: dict[str, str] = {}
        before = {cell.name: _finished(out / RUNS / cell.name) for cell in grid.cells}
        made = {name: facts for name, facts in before.items() if facts is not None}
        missing = len(grid.cells) - len(made)
        for cell in (*cells, last, *cells):  # again those for which there was no time, if some is left at the end
            if cell.name in made or cell.name in failed:
                continue
            pace = max(0.5, (taken + known) / (expected + known))
            reserved = 0.0 if last.name in made else RESERVE * pace * last.seconds
            began = time.monotonic()
            if cell is not last and began + pace * cell.seconds + reserved > end:
                continue
            number += 1
            self.progress.say(
                f"run {number} of {missing}: {quantities.count(cell.parameters)} parameters on "
                f"{quantities.count(cell.tokens)} tokens, about {duration(pace * cell.seconds)}"
            )
            try:
                options, within = options_of(cell, grid, self.options), Within(self.progress, cell.name)
                given: dict[str, Any] = {"validation": self.validation, "progress": within}
                facts = run_training(self.inputs, options, out=out / RUNS / cell.name, **given).facts
            except RunFailed as error:
                if cell is last:
                    raise
                failed[cell.name] = f"{cell.name} failed and is left out: {error}"
                continue
            seconds = time.monotonic() - began
            taken, expected, made[cell.name] = taken + seconds, expected + cell.seconds, facts
            loss = quantities.metric(facts["metrics"]["val_loss"])
            self.progress.say(f"  val_loss {loss} in {duration(seconds)}")
        skipped = "was skipped: the time was too short for it; run the same command again to train it"
        notes = [failed.get(cell.name, f"{cell.name} {skipped}") for cell in cells if cell.name not in made]
        for note in notes:
            self.progress.warn(note)
        there = [cell for cell in grid.cells if cell.name in made]
        runs = [run_of(cell, made[cell.name], out / RUNS / cell.name) for cell in there]
        write_points(out / RESULTS, runs)
        return runs, notes


def _refused(error: InputError, planned: Callable[[], Grid]) -> InputError:
    """The refusal of a grid, with --threads 1 where that allows it: small models may train faster on one thread."""
    threads = torch.get_num_threads()
    if threads == 1:
        return error
    try:
        torch.set_num_threads(1)
        planned()
    except InputError:
        return error
    finally:
        torch.set_num_threads(threads)
    return InputError(f"{str(error).removesuffix('.')}, or --threads 1: on one thread the time is enough.")


def _finished(place: Path) -> dict[str, Any] | None:
    """What headway.json says of a run that is complete, or None."""
    try:
        facts = read_facts(place)
    except InputError:
        return None
    return facts if facts and facts.get("finished") else None


def options_of(cell: Cell, grid: Grid, options: TrainOptions) -> TrainOptions:
    """How a run of the grid is trained: its whole schedule over its own tokens, evaluated once, at the end.

    The largest one, which is left out of the fit, is evaluated SNAPSHOTS times and its models are kept, to be probed.

    ``options`` give what the runs share: tokenizer, seed, threads, where to compute.
    """
    names = ("task", "tokenizer", "vocab", "encoding", "threads", "device", "seed")
    shared = {name: options.value(name) for name in names}
    return TrainOptions(
        **shared,
        steps=cell.steps,
        d_model=cell.width,
        layers=cell.layers,
        heads=cell.heads,
        length=grid.length,
        batch_tokens=grid.batch_tokens,
        learning_rate=cell.learning_rate,
        optimizer="muon",
        schedule="constant_then_decay",
        warmup=0.05,
        dropout=0.0,
        weight_decay=0.0,
        precision=grid.precision,
        evaluations=SNAPSHOTS if cell.held_out else 1,
        snapshots=cell.held_out,
    )


def run_of(cell: Cell, facts: dict[str, Any], place: Path) -> Run:
    """A complete run as a point, N counted with embeddings, with the metrics at its end, of all held-out text.

    ``facts`` have the best metrics; they stand in where the log has lost the last ones.
    """
    metrics = (read_log(place, "evaluation") or [facts["metrics"]])[-1]
    more = {
        "parameters": cell.parameters,
        "parameters_without_embeddings": cell.blocks,
        "bits_per_byte": metrics.get("bits_per_byte"),
        "train_loss": facts.get("train_loss"),
        "width": cell.width,
        "layers": cell.layers,
        "steps": cell.steps,
        "learning_rate": cell.learning_rate,
        "seconds": max(facts["seconds"], facts["training_seconds"]),
    }
    return Run(
        float(cell.parameters), float(facts["tokens"]), float(metrics["val_loss"]), cell.name, cell.held_out, more
    )


def write_points(path: Path, runs: Sequence[Run]) -> None:
    """The runs as the CSV file that ``read_points`` reads."""
    first = ("name", "parameters", COUNTS["blocks"], "tokens", "loss", "compute", "held_out")
    header = list(dict.fromkeys([*first, *(name for run in runs for name in run.more)]))
    rows: list[list[Any]] = [header]
    for run in runs:
        own = {"name": run.name, "tokens": int(run.tokens), "loss": run.loss, "compute": run.compute}
        row = {"parameters": run.parameters, **run.more, **own, "held_out": str(run.held_out).lower()}
        rows.append([row.get(name, "") for name in header])
    write_whole(path, lambda new: new.write_text(as_csv(rows), encoding="utf-8", newline=""))


def check_for_points(out: Path, place: Path) -> None:
    """Raise InputError where the fit of runs in ``place``, made already, would come to stand over anything else."""
    if (out / PLAN).is_file() and out.resolve() != place.resolve():
        raise InputError(f"{out}: holds a study of its own; name another directory with --out.")
    if not any((out / name).is_file() for name in (PLAN, REPORT)):
        check_free(out, "study")


def task_of(place: Path) -> str:
    """The task of a study's runs; of a file of points, that of most studies."""
    try:
        return str(json.loads((place / PLAN).read_text(encoding="utf-8"))["asked"].get("task", TASK))
    except (OSError, ValueError, KeyError, TypeError):
        return TASK


def points_of(place: Path, count: str | None) -> tuple[list[Run], str]:
    """The runs of a study that was made, or of a CSV file, and how N is counted.  Raises InputError."""
    if place.is_dir() and not (place / RESULTS).exists():
        raise InputError(f"{place}: holds no {RESULTS}; expected what `headway scale FILE --out` left, or a file.")
    return read_points(_file(place), count)


def keep_points(place: Path, out: Path) -> None:
    """Copy the runs that were fitted to ``out``, which can then be asked again, as a study can."""
    if _file(place).resolve() != (out / RESULTS).resolve():
        write_whole(out / RESULTS, lambda new: shutil.copyfile(_file(place), new))


def _file(place: Path) -> Path:
    """The file of a study, or the file that was named itself."""
    return place / RESULTS if place.is_dir() else place


def counted(runs: Sequence[Run], count: str) -> list[Run]:
    """The same runs with N counted as asked."""
    return [replace(run, parameters=float(run.more[COUNTS[count]])) for run in runs]
