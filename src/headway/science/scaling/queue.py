"""The runs of a grid in sequence, each in its own run directory, so that a stopped queue can resume."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headway.errors import InputError, RunFailed
from headway.io import quantities
from headway.io.quantities import duration
from headway.science.scaling.grid import SNAPSHOTS, Cell, Grid
from headway.science.scaling.points import Run
from headway.training.monitor.progress import NoProgress, Progress
from headway.training.options import TrainOptions
from headway.training.store.facts import read_facts
from headway.training.store.log import read_log
from headway.training.store.run_directory import RunDirectory
from headway.workflows.train.run import run_training

RESERVE = 1.15
"""The time that is kept for the run that is left out, over what it should take."""

TRUSTED = 0.2
"""What was planned counts as if this share of all runs had taken the time that it says: one run that was slow, the
first above all, does not make all others seem too long."""


class Within(Progress):
    """Progress of one run among many: its steps and its warnings, not what it decided."""

    def __init__(self, outer: Progress, name: str):
        self.outer, self.name = outer, name

    def say(self, text: str) -> None:
        """Nothing: the queue says what there is to say."""

    def warn(self, text: str) -> None:
        self.outer.warn(f"{self.name}: {text}")

    def step(self, share: float, step: int, loss: float, seconds_left: float | None, tokens_per_second: float) -> None:
        self.outer.step(share, step, loss, seconds_left, tokens_per_second)

    def close(self) -> None:
        self.outer.close()


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


def finished(place: Path) -> dict[str, Any] | None:
    """What headway.json says of a run that is complete, or None."""
    try:
        facts = read_facts(place)
    except InputError:
        return None
    return facts if facts and facts.get("finished") else None


def run_queue(
    inputs: Sequence[str | Path],
    grid: Grid,
    options: TrainOptions,
    *,
    out: Path,
    end: float,
    validation: Sequence[str | Path] = (),
    progress: Progress | None = None,
    train: Callable[..., RunDirectory] = run_training,
    now: Callable[[], float] = time.monotonic,
) -> tuple[list[Run], list[str]]:
    """The complete runs, and notes on those that were skipped for lack of time.

    ``end`` is when the time is over, by ``now``.  Runs go from the smallest compute to the largest; a run is
    skipped if the time is too short for it and the run that the fit leaves out, or if it fails.  Raises RunFailed if
    the last run fails, and Interrupted after Ctrl-C, when all is saved.
    """
    progress = progress or NoProgress()
    *cells, last = grid.cells
    known = TRUSTED * grid.seconds
    taken, expected, number = 0.0, 0.0, 0
    failed: dict[str, str] = {}
    made = {cell.name: facts for cell in grid.cells if (facts := finished(out / cell.name)) is not None}
    missing = len(grid.cells) - len(made)
    for cell in (*cells, last, *cells):  # again those for which there was no time, if some is left at the end
        if cell.name in made or cell.name in failed:
            continue
        pace = max(0.5, (taken + known) / (expected + known))
        kept = 0.0 if last.name in made else RESERVE * pace * last.seconds
        if cell is not last and now() + pace * cell.seconds + kept > end:
            continue
        number += 1
        progress.say(
            f"run {number} of {missing}: {quantities.count(cell.parameters)} parameters on "
            f"{quantities.count(cell.tokens)} tokens, about {duration(pace * cell.seconds)}"
        )
        began = now()
        try:
            done = train(
                inputs, options_of(cell, grid, options), out=out / cell.name, validation=validation,
                progress=Within(progress, cell.name),
            )  # fmt: skip
        except RunFailed as error:
            if cell is last:
                raise
            failed[cell.name] = f"{cell.name} failed and is left out: {error}"
            continue
        taken, expected = taken + now() - began, expected + cell.seconds
        made[cell.name] = done.facts
        progress.say(f"  val_loss {quantities.metric(done.facts['metrics']['val_loss'])} in {duration(now() - began)}")
    notes = [
        failed.get(
            cell.name, f"{cell.name} was skipped: the time was too short for it; run the same command again to train it"
        )
        for cell in cells
        if cell.name not in made
    ]
    for note in notes:
        progress.warn(note)
    runs = [run_of(cell, facts, out / cell.name) for cell in grid.cells if (facts := made.get(cell.name)) is not None]
    return runs, notes


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
