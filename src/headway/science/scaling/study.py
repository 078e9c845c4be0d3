"""A scaling study on a text: plan, runs, results, kept in one directory so that it can be stopped and resumed.

``OUT/plan.json`` holds the plan, ``OUT/runs/`` a run directory for each run, ``OUT/results.csv`` the points, and
``OUT/scaling.json`` what ``--json`` prints.
"""

import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from headway.data.records.corpus import Corpus
from headway.data.stream.streamed import Streamed
from headway.errors import InputError
from headway.io.atomic_write import write_json, write_whole
from headway.io.csv_text import as_csv
from headway.science.scaling.grid import KINDS, Grid, Kind, Shape, Text, plan_grid, shapes
from headway.science.scaling.points import COUNTS, Run, read_points
from headway.science.scaling.queue import run_queue
from headway.tasks.registry import NAMES, named, task_named
from headway.tasks.task import Scaling, TaskInputs
from headway.training.hardware.precision import LEAST_WIDTH, faster_precision
from headway.training.loop.thread_parallel import ThreadParallel, share_count
from headway.training.monitor.progress import NoProgress, Progress
from headway.training.optim.optimizers import optimizers
from headway.training.options import TrainOptions
from headway.workflows.input import read_input, validation_input

BATCH = 2048
"""Tokens of a step that is timed."""
STEPS = 6
"""Of each size; the first is not counted."""
PLAN, RESULTS, REPORT, RUNS = "plan.json", "results.csv", "scaling.json", "runs"
TASK = "language_modeling"
"""What is studied unless another task is named."""
TIMED = (1, 2, 4, 6, 10)
"""Heads of the sizes of which a few steps are timed."""
SHORT, LONG = 128, 256
"""Tokens of a sequence: of studies below LONG_TIME, and of longer ones."""
LONG_TIME = 3600.0
ENDING = 8.0
"""Seconds kept for the fit, the plots and leaving."""
TOKENIZER = "char"
"""A small vocabulary: with thousands of subwords nearly all of a small model would be its table of embeddings."""
ASKED = ("tokenizer", "vocab", "length", "batch_tokens", "precision", "encoding", "seed")
"""Options that cannot change during a study."""


def measured_speed(
    measured: list[Shape], vocab_size: int, length: int, precision: str, scaling: Scaling
) -> Callable[[Shape], float]:
    """Tokens a second of any size, by timing training steps of some (smallest first); between them as lines in logs."""
    rates = [step_rate(shape, vocab_size, length, precision, scaling) for shape in measured]
    logs = [(math.log(shape.parameters), math.log(rate)) for shape, rate in zip(measured, rates, strict=True)]

    def speed(shape: Shape) -> float:
        x = math.log(shape.parameters)
        i = next((i for i in range(1, len(logs) - 1) if x <= logs[i][0]), len(logs) - 1)
        (x0, y0), (x1, y1) = logs[i - 1], logs[i]
        return math.exp(y0 + (y1 - y0) * (x - x0) / (x1 - x0))

    return speed


def faster_steps(shape: Shape, vocab_size: int, length: int, scaling: Scaling) -> str:
    """The precision in which whole steps of a size are faster here: of small models, converting may cost more than
    faster products gain.  bfloat16 is not tried where its products are no faster."""
    if faster_precision(LEAST_WIDTH)[0] == "float32":
        return "float32"
    return max(("float32", "bfloat16"), key=lambda precision: step_rate(shape, vocab_size, length, precision, scaling))


def step_rate(shape: Shape, vocab_size: int, length: int, precision: str, scaling: Scaling) -> float:
    """Tokens a second of whole training steps, of the fastest of a few on random tokens."""
    model = scaling.build(scaling.config(vocab_size, shape.width, shape.layers, shape.heads, length))
    ids = torch.randint(vocab_size, (max(1, BATCH // length), length))
    task, batch = scaling.trial(ids, vocab_size)
    parameters = [p for p in model.parameters() if p.requires_grad]
    chosen = optimizers(model, "muon", 1e-3, 0.0, precision=precision)
    times = []
    with ThreadParallel(share_count(model, task, ids.numel())) as shares:
        for _ in range(STEPS):
            began = time.perf_counter()
            shares.add_gradient(model, task, batch, precision, parameters)
            for optimizer in chosen:
                optimizer.step()
                optimizer.zero_grad()
            times.append(time.perf_counter() - began)
    return ids.numel() / min(times[1:])


def decide(
    inputs: Sequence[str | Path],
    options: TrainOptions,
    wanted: float,
    *,
    out: Path | None,
    validation: Sequence[str | Path] = (),
    started: float | None = None,
    progress: Progress | None = None,
) -> Grid:
    """The grid for ``wanted`` seconds from ``started``: that which ``out`` holds, else a new one, kept there.

    Without ``out`` nothing is written.  Raises InputError, also where ``out`` holds a study of other things.
    """
    progress = progress or NoProgress()
    started = time.monotonic() if started is None else started
    progress.phase("reading")
    task = options.data.task or TASK
    scaling = task_named(named(task)).scaling()
    if scaling is None:
        able = " and ".join(name for name in NAMES if task_named(name).scaling() is not None)
        raise InputError(f"--task {task}: scale is for {able}.")
    options = options.but(task=task, tokenizer=options.data.tokenizer or TOKENIZER)
    source, found = read_input(inputs, options)
    if not isinstance(source, Corpus) or isinstance(source, Streamed):
        raise InputError("scale is for running text: name .txt files or a folder of them.")
    asked = {name: options.value(name) for name in ASKED} | {"fingerprint": source.fingerprint, "task": task}
    held_out = validation_input(validation, options, found)
    asked["validation"] = None if held_out is None else held_out.fingerprint
    earlier = _kept(out, asked) if out is not None else None
    if earlier is not None:
        return earlier
    data: Any = task_named(task).open_data(TaskInputs(source, held_out, found, options, None, None, progress))
    text = Text(data.n_tokens, len(data.validation), data.tokenizer.vocab_size)
    length = options.data.length or (SHORT if wanted < LONG_TIME else LONG)
    progress.phase("timing")
    shared: dict[str, Any] = {"length": length, "scaling": scaling, "batch_tokens": options.optimisation.batch_tokens}

    def grid_of(kind: Kind) -> Grid:
        timed = [shape for shape in shapes(text.vocab_size, length, kind, scaling) if shape.heads in TIMED]
        precision = options.runtime.precision or faster_steps(timed[2], text.vocab_size, length, scaling)
        speed = measured_speed(timed, text.vocab_size, length, precision, scaling)
        left = wanted - (time.monotonic() - started) - ENDING
        return plan_grid(text, left, speed, kind=kind, precision=precision, before=wanted - left, **shared)

    for kind in KINDS:
        try:
            grid = grid_of(kind)
        except InputError as error:
            if kind is KINDS[0]:
                raise _refused(error, partial(grid_of, kind)) from None
            break  # too little time for that kind: it remains with the one before
        if grid.cells[-1].width <= kind.widest:
            break
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
            write_json(out / PLAN, {"asked": asked, "text": vars(text), "grid": grid.plain()})
        except OSError as error:
            raise InputError(f"{out}: results cannot be written there ({error.strerror or error}).") from None
    return grid


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


def _kept(out: Path, asked: dict[str, Any]) -> Grid | None:
    """The grid of an earlier command.  Raises InputError where it is one on other data or with other options."""
    try:
        kept = json.loads((out / PLAN).read_text(encoding="utf-8"))
        before, grid = {"task": TASK, **kept["asked"]}, Grid.from_plain(kept["grid"])
    except FileNotFoundError:
        check_free(out)
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{out / PLAN}: cannot be read ({error}); name another directory with --out.") from None
    others = [name for name, value in asked.items() if before.get(name) != value]
    if others:
        what = "text" if others[0] == "fingerprint" else others[0]
        raise InputError(f"{out}: holds a study with another {what}; give the same to resume it, or use another --out.")
    return grid


def check_free(out: Path) -> None:
    """Raise InputError where results would come to stand among other files, or over them."""
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: this directory holds other files and no study; name a new one with --out.")


def check_for_points(out: Path, place: Path) -> None:
    """Raise InputError where the fit of runs in ``place``, made already, would come to stand over anything else."""
    if (out / PLAN).is_file() and out.resolve() != place.resolve():
        raise InputError(f"{out}: holds a study of its own; name another directory with --out.")
    if not any((out / name).is_file() for name in (PLAN, REPORT)):
        check_free(out)


def run_study(
    inputs: Sequence[str | Path],
    grid: Grid,
    options: TrainOptions,
    *,
    out: Path,
    end: float,
    validation: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> tuple[list[Run], list[str]]:
    """Make the runs of the grid that are not made, and write the points; the runs, and notes on those left out."""
    options = options.but(task=options.data.task or TASK, tokenizer=options.data.tokenizer or TOKENIZER)
    runs, notes = run_queue(
        inputs, grid, options, out=out / RUNS, end=end - ENDING, validation=validation, progress=progress
    )
    write_points(out / RESULTS, runs)
    return runs, notes


def write_points(path: Path, runs: Sequence[Run]) -> None:
    """The runs as the CSV file that ``read_points`` reads."""
    more = list(dict.fromkeys(name for run in runs for name in run.more))
    header = list(
        dict.fromkeys(["name", "parameters", COUNTS["blocks"], "tokens", "loss", "compute", "held_out", *more])
    )
    rows: list[list[Any]] = [header]
    for run in runs:
        own = {"name": run.name, "tokens": int(run.tokens), "loss": run.loss, "compute": run.compute}
        row = {"parameters": run.parameters, **run.more, **own, "held_out": str(run.held_out).lower()}
        rows.append([row.get(name, "") for name in header])
    write_whole(path, lambda new: new.write_text(as_csv(rows), encoding="utf-8", newline=""))


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
