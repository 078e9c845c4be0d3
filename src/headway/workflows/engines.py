"""What each engine of a run gives on this machine: its speed, and how many held-out answers equal torch's."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.formats.exports import FEW, MANY, open_engine, place_of
from headway.formats.parity import BOUND
from headway.formats.registry import FLOAT32, SPECS, TORCH
from headway.hub.adapters.locate import locate_model
from headway.models.device import PROCESSOR
from headway.runtime.engine import Engine
from headway.runtime.precision import available
from headway.tasks.checks import apart
from headway.tasks.registry import task_named
from headway.training.progress import NoProgress, Progress
from headway.training.store.facts import read_facts
from headway.workflows import timing
from headway.workflows.load import load
from headway.workflows.precisions import WRITTEN, held_out, run_to_store

BATCHES, SINGLE = (1, 32), 8
"""Inputs at once; of single ones, several are answered in turn, since their lengths differ."""
LONG, QUICK = 128, 0.5
"""Inputs in place of 32 where every engine answers those within so many seconds: lists are mostly longer than one
batch, and are sorted into several."""
ROUNDS = 7
LEAST, MOST = 32, 256
"""Held-out inputs whose answers are compared; between the two, as many as the time allows."""
COMPARING = 0.4
"""The share of the time for comparing answers."""
COSINE = 0.9999
"""Vectors are equal from this cosine on."""
FASTER = 1.1
"""By so much an engine must be faster than torch to be taken: less may be noise, and on lists much longer than those
measured torch gains, whose threads answer a batch each.  With 1.02, an engine was taken that answered 128 texts 1.05
times as fast as torch, and 2,809 texts 0.82 times."""
LOST = 0.01
"""The share of answers that may differ in a lower precision, in addition to those that differ by torch itself."""

Row = dict[str, Any]


def engines(run: str, *, limit: float, progress: Progress | None = None) -> list[Row]:
    """A dict for each engine that a run has, in each precision of its exports; torch first in each precision.

    ``engine``, ``precision``; ``speeds``, a dict for each of ``BATCHES``: ``batch`` and ``per_second`` (answers, or
    tokens of a language model); ``compared``, how many held-out answers were compared with those of torch in float32,
    and ``equal``, how many are the same; ``cosine``, the smallest of vectors, or None; ``batch_difference``, how far
    answers to inputs together are from those to each alone; ``problem``, why an engine could not be measured, or None.
    Empty where no engine can be measured.

    Raises InputError as ``load`` does, and where the run has no data to measure with.
    """
    progress, began = progress or NoProgress(), time.monotonic()
    if not (exports := exports_in(run)):
        return []
    directory = locate_model(run).path
    exported = {precision for _, precision in exports}
    names = [FLOAT32, *(name for name in available(PROCESSOR)[1:] if name in exported)]  # those that torch has too
    pipes = {precision: load(run, device="cpu", precision=precision) for precision in names}
    exact = pipes[FLOAT32]
    task = task_named(exact.task)
    inputs = held_out(run, exact, MOST)
    rows: list[Row] = []
    measured: list[tuple[Row, Callable[[], Any]]] = []
    """the row of each engine that opened, and the pipeline that it answers"""
    for precision, pipe in pipes.items():
        for name in (TORCH, *(name for name, one in exports if one == precision)):
            row: Row = {"engine": name, "precision": precision, "speeds": [], "compared": 0, "equal": 0}
            row |= {"cosine": None, "problem": None}
            rows.append(row)
            try:
                engine = None if name == TORCH else open_engine(name, directory, exact.model, precision)
                measured.append((row, partial(answering, pipe, engine)))
            except InputError as error:
                row["problem"] = str(error)
    ways = [way for _, way in measured]
    start, some = time.monotonic(), inputs[:SINGLE]
    task.normalize_answers(ways[0](), some)
    each = (time.monotonic() - start) / len(some)
    count = min(len(inputs), max(LEAST, int(COMPARING * limit / len(ways) / each)))
    reference = task.normalize_answers(ways[0](), inputs[:count])
    for row, way in measured:
        progress.phase(f"{row['engine']} {row['precision']}: answers")
        row |= _compared(task.normalize_answers(way(), inputs[:count]), reference)
        row["batch_difference"] = batch_difference(way(), inputs[:SINGLE])
    left = limit - (time.monotonic() - began)
    for (row, _), speeds in zip(measured, _speeds(task, ways, inputs, left, progress), strict=True):
        row["speeds"] = speeds
    return rows


def batch_difference(pipe: Any, inputs: Sequence[Any]) -> float:
    """How far the answers to inputs together are from those to each alone (``compare_answers.apart``)."""
    task = task_named(pipe.task)
    answer = partial(task.normalize_answers, pipe) if task.spec.writes else lambda some: list(pipe(list(some)))
    return apart(answer(inputs), [answer([one])[0] for one in inputs])


def best(rows: Sequence[Row]) -> dict[str, dict[str, str]]:
    """The engines that "auto" takes in each precision: the fastest whose answers are the same, or torch.

    That for few inputs at once is the fastest with one, that for many the fastest with 32.  Below float32 it is one
    engine, the fastest with both: two round differently, and an answer must not depend on how many are asked for.
    """
    fastest_of = {}
    for own in (row for row in rows if row["engine"] == TORCH):
        same = [row for row in rows if row["precision"] == own["precision"] and row["engine"] != TORCH]
        times = {row["engine"]: faster(row, own) for row in same if is_same(row, own)}
        if own["precision"] != FLOAT32:
            times = {name: [min(each)] * len(each) for name, each in times.items()}
        fastest = [max([(FASTER, TORCH), *((each[at], name) for name, each in times.items())])[1] for at in (0, 1)]
        fastest_of[own["precision"]] = dict(zip((FEW, MANY), fastest, strict=True))
    return fastest_of


def is_same(row: Row, own: Row) -> bool:
    """Whether an engine answers as torch: all in float32, else, of ``LEAST`` or more, at most ``LOST`` fewer.

    None may depend on the inputs beside it.
    """
    if row["problem"] is not None or not row["compared"] or row.get("batch_difference", 0.0) > BOUND:
        return False
    if row["precision"] == FLOAT32:
        return bool(row["equal"] == row["compared"])
    return bool(row["compared"] >= LEAST and row["equal"] >= own["equal"] - LOST * row["compared"])


def faster(row: Row, own: Row) -> list[float]:
    """How many times as fast an engine is as torch, at each batch size."""
    return [one["per_second"] / other["per_second"] for one, other in zip(row["speeds"], own["speeds"], strict=True)]


def stored(run: Path, rows: list[Row]) -> None:
    """Write what was measured to the run's headway.json.  Raises InputError for a directory that is no run."""
    run_to_store(run, "an engine").update(engines={"best": best(rows), "measured": rows})


def speed_of(run: str, few: Engine | None, many: Engine | None) -> str:
    """A sentence about the engines that "auto" took, by what was measured."""
    rows = ((read_facts(locate_model(run).path) or {}).get("engines") or {}).get("measured") or []
    said = []
    for at, (engine, what) in enumerate(((few, "few inputs at once"), (many, "many"))):
        if engine is None:
            said.append(f"{what}: torch")
        else:
            named = {row["engine"]: row for row in rows if row["precision"] == engine.precision}
            times = faster(named[engine.name], named[TORCH])[at]
            said.append(f"{what}: {engine.name}, {times:.2g} times as fast as torch when that was measured")
    return "; ".join(said)


def exports_in(run: str) -> list[tuple[str, str]]:
    """(engine, precision) of each export that lies in a run and whose library is installed."""
    directory = locate_model(run).path
    return [
        (spec.name, precision)
        for spec in SPECS.values()
        if spec.installed
        for precision in spec.precisions
        if place_of(directory, spec.format, precision).is_dir()
    ]


def answering(pipe: Any, engine: Engine | None) -> Any:
    """A pipeline, answered by an engine from now on."""
    pipe.runtime.use(engine, engine)
    return pipe


def _compared(answers: Sequence[Any], reference: Sequence[Any]) -> Row:
    """How many answers equal those of the reference."""
    pairs = list(zip(answers, reference, strict=True))
    if isinstance(reference[0], np.ndarray):
        cosines = [float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))) for a, b in pairs]
        return {"compared": len(cosines), "equal": sum(one >= COSINE for one in cosines), "cosine": min(cosines)}
    return {"compared": len(reference), "equal": sum(bool(one == other) for one, other in pairs)}


def _speeds(
    task: Any, ways: Sequence[Callable[[], Any]], inputs: Sequence[Any], limit: float, progress: Progress
) -> list[list[Row]]:
    """For each way to answer its speed at each batch size; all are measured in turn, so that a pause affects all."""
    ends = time.monotonic() + limit
    times: dict[tuple[int, int], list[float]] = defaultdict(list)
    counts = dict(zip(BATCHES, (SINGLE, BATCHES[1]), strict=True))
    amounts: dict[int, float] = {}
    for number in range(1 + ROUNDS):
        progress.phase(f"engines: round {number} of {ROUNDS}")
        for batch in BATCHES:
            for place, way in enumerate(ways):
                timed = task.timed(way(), inputs, WRITTEN)
                chosen = [timed.inputs[i % len(timed.inputs)] for i in range(counts[batch])]
                parts = [[one] for one in chosen] if batch == 1 else [chosen]
                amounts[batch] = float(timed.each * len(chosen))

                def answer(timed: Any = timed, parts: list[list[Any]] = parts) -> None:
                    for part in parts:
                        timed.answer(part)

                answer()  # until the threads of the library before it sleep
                times[place, batch].append(timing.seconds(answer))
        if not number:  # the first does not count
            slowest = max(times[place, BATCHES[1]][0] for place in range(len(ways)))
            counts[BATCHES[1]] = LONG if slowest < QUICK else BATCHES[1]
            times.clear()
        elif time.monotonic() > ends:
            break
    return [
        [{"batch": batch, "per_second": amounts[batch] / statistics.median(times[place, batch])} for batch in BATCHES]
        for place in range(len(ways))
    ]
