"""What each precision of a model costs and gives on this machine: speed, memory, and the metric on held-out data."""

import statistics
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.errors import InputError
from headway.hub.adapters.locate import locate_model
from headway.models.device import device_of
from headway.runtime.precision import FLOAT32, available
from headway.tasks.registry import spec, task_named
from headway.training.evaluation.comparison import too_few
from headway.training.evaluation.metric import BITS_PER_BYTE, PERPLEXITY, VAL_LOSS, Metric
from headway.training.progress import NoProgress, Progress
from headway.training.store.facts import read_facts
from headway.training.store.run_directory import RunDirectory
from headway.workflows import timing
from headway.workflows.evaluate import evaluate, given_for
from headway.workflows.load import load

BATCHES = (1, 8, 32)
WRITTEN = 32
"""Tokens that a language model writes for each text."""
INPUTS = 256
"""Held-out inputs with which the speed is measured."""
TRIED = 16
"""Rows or windows of the held-out data that are measured first, to see how many there is time for; the fewest."""
MEASURING = 0.6
"""The share of the time that the metrics may take."""
LOST = {"nats": 0.02, "score": 1.0, "share": 0.01}
"""What "auto" may lose of a loss, of BLEU and chrF, which reach 100, and of a metric that reaches 1."""


def precisions(
    run: str, *, limit: float, device: str = "auto", full: bool = False, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """What each precision that the device has gives: a dict for each, float32 first.

    ``precision``; ``bytes`` of the weights; ``load_seconds``; ``speeds``, a dict for each number of threads and of
    texts at once: ``threads``, ``batch``, ``latency_ms`` of such a batch and ``per_second`` (texts, or tokens of a
    language model); ``metric``, its ``value`` and 95 % ``interval`` on the held-out data, or None where they are not
    there or ``limit`` seconds are too short; ``units`` of the held-out data, as a verdict counts them; ``examples``,
    how many were counted: the same in each precision, as many as there is time for, and with ``full`` all of them.

    Raises InputError as ``load`` does, and where the run has no data to measure with.
    """
    progress, began = progress or NoProgress(), time.monotonic()
    names = available(device_of(device))
    rows: list[dict[str, Any]] = []
    inputs: list[Any] = []
    for name in names:
        progress.phase(f"{name}: speed")
        start = time.monotonic()
        pipe = load(run, device=device, precision=name)
        row: dict[str, Any] = {"precision": name, "load_seconds": time.monotonic() - start}
        inputs = inputs or held_out(run, pipe, INPUTS)
        row["speeds"] = list(_speeds(pipe, inputs, (1 - MEASURING) * limit / len(names)))
        row["bytes"] = weight_bytes(pipe.model)  # with what the first answers laid out
        rows.append(row | {"metric": None, "value": None, "interval": None, "examples": 0, "units": None})
        del pipe
    most = None
    if not full:
        progress.phase("metric: how many rows there is time for")
        most = _most(run, device, (began + limit - time.monotonic()) / len(names), len(names))
        if most < TRIED:
            progress.warn("there was no time to measure the metric of every precision (--full or more --time)")
            return rows
    for row in rows:
        progress.phase(f"{row['precision']}: metric")
        row |= _measured(run, row["precision"], device, most)
    return rows


def _most(run: str, device: str, left: float, count: int) -> int:
    """How many rows of the held-out data can be measured in ``left`` seconds for each of ``count`` precisions."""
    if left < 0:
        return 0
    began = time.monotonic()
    _measured(run, FLOAT32, device, TRIED)
    took = time.monotonic() - began  # loading counts, so that there is time to spare
    return int((left - took / count) * TRIED / took)


def best(rows: list[dict[str, Any]]) -> str:
    """The fastest precision at the largest batch whose metric was measured and is next to float32's; else float32.

    None is chosen on fewer held-out units than a verdict needs.
    """
    exact = rows[0]
    metric: Metric | None = exact["metric"]
    names = {FLOAT32: _fastest(exact)}
    if metric is not None and not too_few(metric, exact.get("units")):
        allowed = LOST["nats" if metric.lower_is_better else "score" if metric.units == "text" else "share"]
        if metric.lower_is_better and metric not in (VAL_LOSS, BITS_PER_BYTE, PERPLEXITY):
            allowed = LOST["share"] * exact["value"]  # of an error in its own unit, in proportion to it
        for row in rows[1:]:
            if row["value"] is not None and -metric.better(row["value"], exact["value"]) <= allowed:
                names[row["precision"]] = _fastest(row)
    return max(names, key=lambda name: names[name])


def stored(run: Path, rows: list[dict[str, Any]], chosen: str | None) -> None:
    """Write what was measured to the run's headway.json, and the precision that it is loaded in, if one is chosen.

    Raises InputError for a directory that is no run, and where it cannot be written.
    """
    directory = run_to_store(run, "a precision")
    before = directory.facts.get("precision") or {}
    directory.update(
        precision={"chosen": chosen or before.get("chosen", FLOAT32), "best": best(rows), "measured": plain(rows)}
    )


def run_to_store(run: Path, what: str) -> RunDirectory:
    """A run to whose headway.json something that was measured is written.  Raises InputError for anything else."""
    directory = RunDirectory(run)
    if directory.read() is None:
        raise InputError(f"{run}: there is no headway.json, so {what} cannot be stored; name it when you load.")
    return directory


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same as JSON values: the key of a metric in its place."""
    return [{**row, "metric": row["metric"] and row["metric"].key} for row in rows]


def cost_of(run: str, precision: str) -> str:
    """A sentence about what a precision costs in a run, as far as it was measured."""
    directory = locate_model(run).path
    facts = read_facts(directory) if directory.is_dir() else None
    rows = ((facts or {}).get("precision") or {}).get("measured") or []
    by_name = {row["precision"]: row for row in rows}
    row, exact = by_name.get(precision), by_name.get(FLOAT32)
    if row is None or exact is None or None in (row["value"], exact["value"]):
        return f"what {precision} costs was not measured for this model; `headway bench {run} --store` measures it"
    times = _fastest(row) / _fastest(exact)
    return f"{precision}: {row['metric']} {row['value']:.4g} (float32 {exact['value']:.4g}), {times:.2g} times as fast"


def weight_bytes(model: nn.Module) -> int:
    """Bytes of a model's weights in memory, each counted once."""
    tensors = {part.data_ptr(): part.nbytes for parts in (model.parameters(), model.buffers()) for part in parts}
    laid_out = sum(getattr(part, "laid_out_bytes", 0) for part in model.modules())
    return sum(tensors.values()) + laid_out


def _fastest(row: dict[str, Any]) -> float:
    return max(speed["per_second"] for speed in row["speeds"])


def held_out(run: str, pipe: Any, count: int) -> list[Any]:
    """At most so many of the inputs that a run holds out.  Raises InputError where there are none."""
    if not (inputs := task_named(pipe.task).held_out_inputs(pipe, given_for(run, pipe), count)):
        raise InputError(f"{run}: has no held-out inputs of which answers could be compared.")
    return inputs


def _speeds(pipe: Any, inputs: list[Any], limit: float) -> Iterator[dict[str, Any]]:
    """The speed with one thread and with all, for each number of texts at once, as often as the time allows."""
    timed = task_named(pipe.task).timed(pipe, inputs, WRITTEN)
    threads, device = torch.get_num_threads(), pipe.runtime.device
    counts = sorted({1, threads}) if device.type == "cpu" else [threads]
    clock = partial(timing.seconds, device=device)
    try:
        for count, batch in product(counts, BATCHES):
            torch.set_num_threads(count)
            answer = partial(timed.answer, [timed.inputs[i % len(timed.inputs)] for i in range(batch)])
            answer()  # what is allocated once does not count
            end = time.monotonic() + limit / (len(counts) * len(BATCHES))
            took = statistics.median(*timing.in_turn([answer], end=end, clock=clock))
            speed = {"threads": count, "batch": batch, "latency_ms": 1e3 * took}
            yield speed | {"per_second": timed.each * batch / took}
    finally:
        torch.set_num_threads(threads)


def _measured(run: str, precision: str, device: str, most: int | None) -> dict[str, Any]:
    """The metric on the held-out data, of ``most`` rows: the first of the task's headline metrics that it has."""
    metrics = evaluate(run, device=device, precision=precision, most=most)
    verdict = metrics["verdict"]
    metric = next((one for one in spec(metrics["task"]).headline if one.key == verdict.get("metric")), None)
    if metric is None:
        return {}
    value = metrics[metric.key]
    interval = verdict.get("interval") if value == verdict["value"] else None
    measured = {"metric": metric, "value": value, "interval": interval, "examples": metrics["examples"]}
    return measured | {"units": verdict.get("units")}
