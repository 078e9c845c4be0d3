"""``headway bench``: the speed of a model on this machine, and how time and memory grow with length and width."""

import re
import time
import warnings
from pathlib import Path
from typing import Any

import click

from headway.cli.common import Answer, aligned, device_option, threads_option, verb
from headway.errors import InputError
from headway.io.atomic_write import write_json
from headway.io.quantities import figure, parse_seconds, size
from headway.tasks.registry import spec

SAVING = 3.0
"""Seconds of ``--time`` reserved for drawing and writing."""


@verb()
@click.argument("run", required=False)
@click.option("--lengths", help="Plot the cost against these lengths, such as 128..8192 (doubling) or 128,300,1024.")
@click.option("--widths", help="Plot the cost against these model widths, such as 64..512.")
@click.option(
    "--kinds",
    default="full,windowed,lstm",
    show_default=True,
    help="Kinds of model, with commas: full, windowed, rnn, lstm, gru.",
)
@click.option("--full", is_flag=True, help="Measure the metric of every precision, however long it takes.")
@click.option(
    "--store",
    is_flag=False,
    flag_value="best",
    help="Store in RUN what was measured, and the precision that it answers in from now on: the best, or one you name.",
)
@click.option("--time", "limit", default="2m", show_default=True, help="Time for the whole command, such as 90s or 5m.")
@click.option("--out", help="Folder for the results and plots of --lengths and --widths.  [default: runs/bench]")
@device_option
@threads_option
def command(
    run: str | None,
    lengths: str | None,
    widths: str | None,
    kinds: str,
    full: bool,
    store: str | None,
    limit: str,
    out: str | None,
    device: str,
    progress: Any,
) -> Answer:
    """Measure how fast the model in RUN (a run, a Hugging Face directory or a hub id) reads and writes on this machine.

    For a run whose data are still there, also measure each --precision: its speed, its memory, and its metric on the
    held-out data. --store keeps that in RUN, with the best of them or the one you name as the precision that RUN
    answers in.

    For exports that lie in RUN (headway export RUN --to onnx), also measure the engines that read them beside torch,
    and how many answers on the held-out data are equal. --store keeps that too: --engine auto takes the best.

    Measurements are repeated as often as --time allows; sizes that do not fit are skipped.

    With --lengths or --widths, plot instead how time and memory of one forward pass grow on the CPU, and fit the
    exponents. The models are new: Transformers with full or windowed attention and recurrent networks, with the sizes
    of RUN's model or, without RUN, small decoders.
    """
    from headway.cli.main import STARTED
    from headway.runtime.precision import PRECISIONS
    from headway.workflows.bench import bench, curves

    if run is None and store is not None and store not in ("best", *PRECISIONS):
        run, store = store, "best"  # the word after --store was the run
    if run is None and not (lengths or widths):
        raise InputError(
            "name a RUN to measure its speed, or give --lengths 128..8192 to plot the cost of small models."
        )
    if out and not (lengths or widths):
        raise InputError("--out is for the plots of --lengths and --widths; without them the speed is printed only.")
    if store is not None and (lengths or widths):
        raise InputError("--store is for the precisions of a RUN; leave out --lengths and --widths.")
    end = STARTED + parse_seconds(limit)
    progress.say(f"this takes at most {limit} (--time to change); sizes that do not fit are skipped")
    if lengths or widths:
        result = curves(
            run,
            lengths=sizes(lengths, "lengths") if lengths else (),
            widths=sizes(widths, "widths") if widths else (),
            kinds=list(dict.fromkeys(kind.strip() for kind in kinds.split(","))),
            limit=end - time.monotonic() - SAVING,
            progress=progress,
        )
        result["out"] = str(_written(result, Path(out or "runs/bench")))
        return Answer(result, _curve_lines(result))
    result = bench(str(run), end=end, device=device, full=full, store=store, progress=progress)
    return Answer(result, _speed_lines(str(run), result, store))


def sizes(text: str, name: str) -> list[int]:
    """ "128..1024" doubles from the first to the last; "128,300" names each.  Raises InputError for anything else."""
    doubling = re.fullmatch(r"\s*(\d{1,7})\s*\.\.\s*(\d{1,7})\s*", text)
    if doubling:
        size, last = int(doubling[1]), int(doubling[2])
        numbers = []
        while 0 < size <= last:
            numbers.append(size)
            size *= 2
    else:
        words = [word.strip() for word in text.split(",")]
        numbers = [int(word) for word in words if re.fullmatch(r"\d{1,7}", word)]
        numbers = sorted(set(numbers)) if len(numbers) == len(words) else []
    if not numbers or numbers[0] < 1:
        raise InputError(
            f"--{name} is {text!r}; it must be two numbers such as 128..8192, which doubles from the first up to the "
            "last, or numbers such as 128,300,1024."
        )
    return numbers


def _written(result: dict[str, Any], folder: Path) -> Path:
    """Write cost.json and, if matplotlib is installed, a plot for each axis; returns the folder."""
    from headway.reports.plots import draw_costs

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "cost.json", result)
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written ({error.strerror}).") from None
    try:
        draw_costs(result, folder)
    except InputError as error:  # the numbers are saved without plots
        warnings.warn(str(error), stacklevel=2)
    return folder


def _curve_lines(result: dict[str, Any]) -> list[str]:
    lines = [*_table(result["rows"], "kind", "length", "width"), "", *map(fit_in_words, result["fits"])]
    for entry in result["left_out"]:
        what = f"{entry['kind']}, {entry['length']:,} tokens, width {entry['width']:,}"
        lines.append(f"Skipped for lack of {entry['for_want_of']}: {what}.")
    lines += [
        "",
        "Seconds are the median of one forward pass, with minimum and maximum; peak MB is what torch allocates",
        "during it.  The exponents are least squares on logarithms; in brackets, their 95 % intervals over the",
        "rounds of measurements: of noise alone, and none for a single round.",
        f"Results and plots: {result['out']}",
    ]
    return lines


def fit_in_words(fit: dict[str, Any]) -> str:
    """ "full: time grows as T^1.53 [1.51, 1.55], memory as T^1.00 (FLOPs: T^1.60) over 512..8192"."""
    letter = "T" if fit["axis"] == "length" else "D"
    if fit["seconds"] is None:
        least = figure(fit["floor_seconds"], 3)
        return f"{fit['kind']}: no exponent in {letter}: fewer than two sizes take more than {least} s."
    ends = fit["seconds"]["interval"]
    tops = fit["seconds"]["sizes"]
    words = f"{fit['kind']}: time grows as {letter}^{fit['seconds']['exponent']:.2f}"
    words += " [{:.2f}, {:.2f}]".format(*ends) if ends else ""
    words += f" ({fit['seconds']['last']:.2f} between the last two)" if len(tops) > 2 else ""
    words += f", memory as {letter}^{fit['bytes']['exponent']:.2f}" if fit["bytes"] else ""
    words += f" (FLOPs: {letter}^{fit['flops']['exponent']:.2f})" if fit["flops"] else ""
    return f"{words} over {tops[0]:,}..{tops[-1]:,}, the sizes that take more than {figure(fit['floor_seconds'], 3)} s."


def _table(rows: list[dict[str, Any]], kind: str, *columns: str) -> list[str]:
    """Measurements as lines: what was measured, some of its sizes, and its times, memory and speed."""
    table = [[kind, *columns, "seconds", "least", "most", "peak MB", "tokens/s"]]
    for row in rows:
        times = [figure(value) for value in (row["seconds"], *row["spread"])]
        costs = [figure(row["bytes"] / 1e6, 3), figure(row["tokens_per_second"])]
        table.append([row[kind], *(f"{row[name]:,}" for name in columns), *times, *costs])
    return aligned(table, slice(1, None))


def _speed_lines(run: str, result: dict[str, Any], store: str | None) -> list[str]:
    """The speed of a run, and what its precisions and engines cost, where they were measured."""
    from headway.workflows.engines import exports_in

    on = result["machine"].get("gpu") or f"{result['machine']['threads']} threads"
    lines = [f"{run}: speed of its model on this machine, with {on}", ""]
    lines += _table(result["rows"], "kind", "batch", "length")
    if "precisions" in result:
        lines += ["", *_precision_lines(result["precisions"], result["best"], result["task"])]
    if store is not None:
        chosen = result["best"] if store == "best" else store
        lines += ["", f"{run} answers in {chosen} from now on (--precision for another)."]
    if "engines" in result:
        lines += ["", *_engine_lines(result["engines"], result["best_engines"])]
        stored = f"With --engine auto, {run} is answered by these from now on."
        lines += ["", stored] if store is not None else []
    elif not exports_in(run):
        lines += ["", f"No export of an engine lies in {run}; `headway export {run} --to onnx` makes one."]
    return lines


def _precision_lines(rows: list[dict[str, Any]], best: str, task: str) -> list[str]:
    """The precisions as a table, the best one marked."""
    from headway.training.evaluation.comparison import too_few

    exact = rows[0]
    metric = next((spec(task).metric(row["metric"]) for row in rows if row["metric"] is not None), None)
    threads = exact["speeds"][-1]["threads"]
    batches = [speed["batch"] for speed in exact["speeds"] if speed["threads"] == threads]
    heads = [f"{batch} at once" for batch in batches]
    table = [["precision", "weights", "loading", "ms for one", *heads, metric.name if metric else "", ""]]
    for row in rows:
        speeds = {speed["batch"]: speed for speed in row["speeds"] if speed["threads"] == threads}
        value = "" if row["value"] is None else f"{row['value']:.4g}"
        if row["interval"]:
            value += f" ({row['interval'][0]:.4g} to {row['interval'][1]:.4g})"
        costs = [size(row["bytes"]), f"{row['load_seconds']:.2g} s", f"{speeds[1]['latency_ms']:.3g}"]
        cells = [figure(speeds[batch]["per_second"], 3) for batch in batches]
        table.append([row["precision"], *costs, *cells, value, "best" if row["precision"] == best else ""])
    lines = [
        *aligned(table),
        "",
        f"With {threads} threads; under a batch are texts a second, or tokens a second of a language model.  best is",
        "the fastest whose metric is within 1 point (of a loss 0.02 nats) of float32's; --store keeps it in the run.",
    ]
    if exact["examples"]:
        lines.append(f"The metric is of {exact['examples']:,} held-out examples; --full measures all of them.")
    if metric is not None and too_few(metric, exact["units"]):
        few = f"{exact['units']:,.0f} held-out units were measured: too few to choose by, so float32 stays the best"
        lines.append(f"Only {few} (--full or more --time measures all of them).")
    return lines


def _engine_lines(rows: list[dict[str, Any]], best: dict[str, dict[str, str]]) -> list[str]:
    """The engines as a table, the best one of each precision marked, and what the others lack."""
    from headway.workflows.engines import BATCHES, is_same

    own = {row["precision"]: row for row in rows if row["engine"] == "torch"}
    table = [["engine", "precision", *(f"{batch} at once" for batch in BATCHES), "answers equal", ""]]
    for row in (row for row in rows if row["problem"] is None):
        equal = f"{row['equal']:,} of {row['compared']:,}"
        if row["cosine"] is not None:
            equal += f" (cosine {row['cosine']:.6f} at least)"
        at = [key for key, name in best[row["precision"]].items() if name == row["engine"]]
        note = f"best for {' and '.join(at)}" if at else ""
        if row["engine"] != "torch" and not is_same(row, own[row["precision"]]):
            few = row["equal"] == row["compared"]
            note = f"not for auto: {'too few answers were compared' if few else 'its answers differ'}"
        speeds = [figure(speed["per_second"], 3) for speed in row["speeds"]]
        table.append([row["engine"], row["precision"], *speeds, equal, note])
    return [
        *aligned(table),
        *(f"{row['engine']} {row['precision']}: not measured: {row['problem']}" for row in rows if row["problem"]),
        "",
        "Answers (of a language model tokens) a second; equal to those of torch in float32, on held-out data.",
        "best is the fastest whose answers are the same, for one at once (few) and for 32 (many): what --engine auto",
        "takes; --store keeps it in the run.",
    ]
