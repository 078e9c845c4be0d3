"""``headway bench``: the speed of a model on this machine, and how time and memory grow with length and width."""

import re
import time as clock
from pathlib import Path
from typing import Any

import click

from headway.cli.common import device_option, emit, output_options, threads_option
from headway.errors import InputError
from headway.io.quantities import figure

SAVING = 3.0
"""Seconds of ``--time`` reserved for drawing and writing."""


@click.command(short_help="Measure a model's speed on this machine, and how its cost grows.")
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
@output_options
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
    as_json: bool,
    quiet: bool,
) -> None:
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
    from headway.cli.measured import measured_engines, measured_precisions
    from headway.io.quantities import parse_seconds
    from headway.runtime.precision import PRECISIONS
    from headway.training.monitor.progress import shown_to

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
    left = parse_seconds(limit) - (clock.monotonic() - STARTED)
    progress = shown_to(quiet)
    progress.say(f"this takes at most {limit} (--time to change); sizes that do not fit are skipped")
    try:
        if lengths or widths:
            found = _curves(run, lengths, widths, kinds, left - SAVING, progress)
            found["out"] = str(_written(found, Path(out or "runs/bench")))
            lines = _curve_lines(found)
        else:
            found = _speed(str(run), left / 3, device, progress)
            lines = _speed_lines(str(run), found)
            rest = parse_seconds(limit) - (clock.monotonic() - STARTED)
            more, also = measured_precisions(
                str(run), limit=rest / 2, device=device, full=full, store=store, progress=progress
            )
            found, lines = found | more, lines + also
            rest = parse_seconds(limit) - (clock.monotonic() - STARTED)
            more, also = measured_engines(str(run), limit=rest, store=store is not None, progress=progress)
            found, lines = found | more, lines + also
    finally:
        progress.close()
    emit({"task": found.pop("task"), "seconds": clock.monotonic() - STARTED, **found}, as_json, lines)


def sizes(text: str, name: str) -> list[int]:
    """ "128..1024" doubles from the first to the last; "128,300" names each.  Raises InputError for anything else."""
    doubling = re.fullmatch(r"\s*(\d{1,7})\s*\.\.\s*(\d{1,7})\s*", text)
    if doubling:
        size, last = int(doubling[1]), int(doubling[2])
        found = []
        while 0 < size <= last:
            found.append(size)
            size *= 2
    else:
        words = [word.strip() for word in text.split(",")]
        found = [int(word) for word in words if re.fullmatch(r"\d{1,7}", word)]
        found = sorted(set(found)) if len(found) == len(words) else []
    if not found or found[0] < 1:
        raise InputError(
            f"--{name} is {text!r}; it must be two numbers such as 128..8192, which doubles from the first up to the "
            "last, or numbers such as 128,300,1024."
        )
    return found


def _curves(
    run: str | None, lengths: str | None, widths: str | None, kinds: str, limit: float | None, progress: Any
) -> dict[str, Any]:
    """The measurements, with the machine and the sizes of the models."""
    from dataclasses import asdict

    from torch import nn

    from headway.models.adapt.ensemble import Ensemble
    from headway.models.baselines import BaselineConfig
    from headway.models.own import OwnConfig
    from headway.models.transformer import Decoder
    from headway.training.store.run_directory import clock as date
    from headway.training.store.run_directory import machine, versions
    from headway.workflows.bench import SMALL, WINDOW, cost_curves
    from headway.workflows.load import load

    config, task = SMALL, "cost"
    wiring: type[nn.Module] = Decoder
    if run is not None:
        pipe = load(run, device="cpu")
        model = pipe.model.members[0] if isinstance(pipe.model, Ensemble) else pipe.model
        if isinstance(pipe.model.config, BaselineConfig | OwnConfig):
            raise InputError(
                f"{run}: this is {pipe.model.config.described}, and the plots need the sizes of a Transformer; "
                "name a Transformer or no RUN, and choose recurrent kinds with --kinds."
            )
        if getattr(model, "patches", None) is not None:
            raise InputError(
                f"{run}: this model reads images of one size, so its length cannot vary; name another model."
            )
        config, wiring, task = pipe.model.config, type(model), pipe.task
    given = {"lengths": lengths, "widths": widths}
    found = cost_curves(
        config,
        wiring,
        **{name: sizes(text, name) if text else () for name, text in given.items()},
        kinds=list(dict.fromkeys(kind.strip() for kind in kinds.split(","))),
        limit=limit,
        progress=progress,
    )
    facts = {"model": asdict(config), "window": WINDOW, "machine": machine(), "versions": versions(), "date": date()}
    return {"task": task, **found, **facts}


def _speed(run: str, limit: float, device: str, progress: Any) -> dict[str, Any]:
    from headway.training.store.run_directory import machine
    from headway.workflows.bench import speed
    from headway.workflows.load import load

    began = clock.monotonic()
    pipe = load(run, device=device)
    rows = speed(pipe, limit=limit - (clock.monotonic() - began), progress=progress)
    return {"task": pipe.task, "rows": rows, "machine": machine(pipe.runtime.device)}


def _written(found: dict[str, Any], folder: Path) -> Path:
    """Write cost.json and, if matplotlib is installed, a plot for each axis; returns the folder."""
    from headway.io.atomic_write import write_json
    from headway.reports.costs import draw_costs

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "cost.json", found)
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written ({error.strerror}).") from None
    try:
        draw_costs(found, folder)
    except InputError as error:  # the numbers are saved without plots
        click.echo(f"headway: warning: {error}", err=True)
    return folder


def _curve_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{'kind':12}{'length':>8}{'width':>7}{'seconds':>11}{'least':>11}{'most':>11}{'peak MB':>10}{'tokens/s':>12}"
    ]
    for row in found["rows"]:
        times = "".join(f"{figure(value):>11}" for value in (row["seconds"], *row["spread"]))
        lines.append(
            f"{row['kind']:12}{row['length']:>8,}{row['width']:>7,}{times}"
            f"{figure(row['bytes'] / 1e6, 3):>10}{figure(row['tokens_per_second']):>12}"
        )
    lines.append("")
    lines += [fit_in_words(fit) for fit in found["fits"]]
    for entry in found["left_out"]:
        what = f"{entry['kind']}, {entry['length']:,} tokens, width {entry['width']:,}"
        lines.append(f"Skipped for lack of {entry['for_want_of']}: {what}.")
    lines += [
        "",
        "Seconds are the median of one forward pass, with minimum and maximum; peak MB is what torch allocates",
        "during it.  The exponents are least squares on logarithms; in brackets, their 95 % intervals over the",
        "rounds of measurements: of noise alone, and none for a single round.",
        f"Results and plots: {found['out']}",
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


def _speed_lines(run: str, found: dict[str, Any]) -> list[str]:
    on = found["machine"].get("gpu") or f"{found['machine']['threads']} threads"
    lines = [
        f"{run}: speed of its model on this machine, with {on}",
        "",
        f"{'':8}{'batch':>6}{'tokens':>8}{'seconds':>11}{'least':>11}{'most':>11}{'peak MB':>10}{'tokens/s':>12}",
    ]
    for row in found["rows"]:
        times = "".join(f"{figure(value):>11}" for value in (row["seconds"], *row["spread"]))
        lines.append(
            f"{row['kind']:8}{row['batch']:>6}{row['length']:>8,}{times}"
            f"{figure(row['bytes'] / 1e6, 3):>10}{figure(row['tokens_per_second']):>12}"
        )
    return lines
