"""``headway scale``: train a grid of language models, fit a scaling law to their losses and predict larger runs."""

import time as clock
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.api import default_out
from headway.cli.common import Answer, aligned, resumable, threads_option, verb
from headway.cli.plan import quantity
from headway.errors import InputError
from headway.io.atomic_write import write_json
from headway.io.quantities import duration, parse_seconds
from headway.tasks.registry import named, spec
from headway.training.options import TrainOptions

if TYPE_CHECKING:
    from headway.science.scaling.law import Run
    from headway.science.scaling.study import Study

BELOW = 0.01
"""A budget smaller than this fraction of the largest run's is reported as far from the runs."""
PROBING = 0.5
"""Seconds reserved for each probe of each model."""


@verb()
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("--time", default="1h", help="Time for the whole command, such as 40m or 2h. [default: 1h]")
@click.option("--plan", "planning", is_flag=True, help="Print the grid of runs without training.")
@click.option("--points", type=click.Path(path_type=Path), help="Fit the runs of a CSV file: parameters, tokens, loss.")
@click.option(
    "--predict", multiple=True, metavar="FLOPS", help="Also predict the best model for this compute, such as 1e18."
)
@click.option("--probe", help="Also measure abilities of each model: induction, fewshot.")
@click.option("--task", help="Task: language_modeling or masked_lm.  [default: language_modeling]")
@click.option(
    "--count", type=click.Choice(["total", "blocks"]), help="N with embeddings, or of the blocks only. [total]"
)
@click.option("--validation", multiple=True, metavar="INPUT", help="Validation file, instead of a held-out part.")
@click.option("--tokenizer", type=click.Choice(["char", "word", "bpe"]), help="Tokenizer. [default: char]")
@click.option("--vocab", type=int, help="Maximum vocabulary size.")
@click.option("--length", type=int, help="Sequence length in tokens.")
@click.option("--batch-tokens", type=int, help="Tokens per step, the same for all runs.")
@click.option("--seed", type=int, default=0, help="Random seed.", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Output directory. [default: runs/scale-NAME]")
@threads_option
def command(
    inputs: tuple[str, ...],
    time: str,
    planning: bool,
    points: Path | None,
    predict: tuple[str, ...],
    probe: str | None,
    count: str | None,
    validation: tuple[str, ...],
    seed: int,
    out: Path | None,
    progress: Any,
    **options: Any,
) -> Answer:
    """Train language models, or masked ones with --task, of several sizes on several numbers of tokens of INPUT, and
    fit L = E + A / N^alpha + B / D^beta to their losses, each constant with an interval. The largest run is left out
    of the fit, and its prediction is compared with its measured loss, unless fewer than three sizes would remain.

    INPUT may also be the directory of an earlier study; --predict then answers for a larger budget. --points fits
    runs from a table. Run the same command again to resume a study.
    """
    from headway.cli.main import STARTED
    from headway.science.scaling.analysis import analyse
    from headway.science.scaling.probes import probe_runs, wanted_probes
    from headway.science.scaling.study import (
        PLAN,
        RESULTS,
        RUNS,
        Study,
        check_for_points,
        counted,
        keep_points,
        points_of,
        task_of,
    )

    if bool(inputs) == (points is not None):
        raise InputError("name a text to train on, the directory of an earlier study, or a CSV file with --points.")
    if seed < 0:
        raise InputError(f"--seed is {seed}; it must be 0 or more.")
    budgets, probes = [_flops(text) for text in predict], wanted_probes(probe)
    earlier = points
    if len(inputs) == 1 and Path(inputs[0], RESULTS).is_file() and not any(Path(inputs[0]).glob("*.txt")):
        earlier = Path(inputs[0])  # a directory that holds the runs of a study rather than text
    if earlier is not None:
        if planning:
            raise InputError("--plan is for a text; these runs are already trained.")
        if probes and points is not None:
            raise InputError("--probe needs the models: name the directory of a study instead of --points.")
        if out is not None:
            check_for_points(out, earlier)
        runs, count = points_of(earlier, count)
        fitted, task, notes = runs, task_of(earlier), list[str]()
    else:
        study = Study(inputs, TrainOptions(seed=seed, **options), out, validation, progress, STARTED)
        if planning:
            if out is not None and not (out / PLAN).is_file():
                study.out = None  # nothing is written
            grid = study.decide(parse_seconds(time))
            result = {"task": study.task, "planned_seconds": grid.seconds}
            result |= {name: getattr(grid, name) for name in ("length", "batch_tokens", "precision")}
            result |= {"notes": list(grid.notes), "rows": [vars(cell) for cell in grid.cells]}
            return Answer(result, _plan_lines(result))
        usual = default_out(inputs)
        study.out = out = out or usual.with_name(f"scale-{usual.name}")
        runs, notes = _trained(study, time, len(probes))
        count, task = count or "total", study.task
        fitted = counted(runs, count)
    result = analyse(fitted, count, budgets=budgets, seed=seed)
    if probes:
        progress.phase("probing")
        result["probes"] = probe_runs((earlier or out or Path()) / RUNS, runs, probes, seed=seed)
    result = _finished(result, task, out, notes)
    if earlier is not None and out is not None:
        keep_points(earlier, out)
    return Answer(result, _lines(result))


def _flops(text: str) -> float:
    """``--predict``: FLOPs as 1e18 or 5T."""
    try:
        value = float(text)
    except ValueError:
        value = quantity(text, "predict") if text[-1:].upper() in tuple("KMGBT") else 0.0
    if not 0 < value < 1e40:
        raise InputError(f"--predict is {text!r}; it must be FLOPs above 0 and below 1e40, such as 1e18.")
    return value


def _trained(study: "Study", time: str, n_probes: int) -> tuple[list["Run"], list[str]]:
    """The runs, trained within a time that leaves some for probes, and notes."""
    from headway.science.scaling.grid import SNAPSHOTS
    from headway.science.scaling.study import ENDING

    limit, say = parse_seconds(time), study.progress.say
    if n_probes and not spec(named(study.task)).writes:
        raise InputError(f"--probe is for models that generate text; leave it out with --task {study.task}.")
    grid = study.decide(limit)
    say(f"{len(grid.cells)} runs, about {duration(grid.seconds)} of training; {time} in total (--time to change)")
    for note in grid.notes:
        say(note)
    end = study.started + limit - ENDING - PROBING * n_probes * (len(grid.cells) + SNAPSHOTS)
    with resumable(f"the study in {study.out}"):
        runs, notes = study.make(grid, end)
    return runs, [*grid.notes, *notes]


def _finished(result: dict[str, Any], task: str, out: Path | None, notes: list[str]) -> dict[str, Any]:
    """The result, with its plots if it is saved."""
    from headway.cli.main import STARTED
    from headway.reports.plots import Lines, NoMatplotlib, draw_study
    from headway.science.scaling.law import CONSTANTS, Law, best_sizes
    from headway.science.scaling.study import REPORT

    notes += result.pop("notes")
    result = {"task": task, "seconds": 0.0, "out": str(out) if out else None, "notes": notes, **result}
    if out is not None:
        law = Law(**{name: result["fit"][name] for name in CONSTANTS})
        try:
            out.mkdir(parents=True, exist_ok=True)
            result["plots"] = []
            try:
                plots = draw_study(result, Lines(law.loss, partial(best_sizes, law)), out)
                result["plots"] = [f"{path}.png" for path in plots]
            except NoMatplotlib as error:
                notes.append(str(error))
            result["seconds"] = clock.monotonic() - STARTED
            write_json(out / REPORT, result)
        except OSError as error:
            raise InputError(f"{out}: results cannot be written there ({error.strerror or error}).") from None
    result["seconds"] = clock.monotonic() - STARTED
    return result


def _plan_lines(result: dict[str, Any]) -> list[str]:
    table = [["parameters", "width", "layers", "tokens", "tokens/par.", "rate", "seconds", ""]]
    for row in result["rows"]:
        sizes = [f"{row[name]:,}" for name in ("parameters", "width", "layers", "tokens")]
        costs = [f"{row['tokens'] / row['parameters']:.1f}", f"{row['learning_rate']:.2g}", f"{row['seconds']:.0f}"]
        table.append([*sizes, *costs, "not in the fit" if row["held_out"] else ""])
    return [
        f"{len(result['rows'])} runs of {result['batch_tokens']:,} tokens per step in sequences of {result['length']}, "
        f"{result['precision']}: about {duration(result['planned_seconds'])}",
        *aligned(table, slice(7)),
        *result["notes"],
    ]


def _lines(result: dict[str, Any]) -> list[str]:
    fit, last = result["fit"], result["held_out"]
    lines = [
        "L = E + A / N^alpha + B / D^beta, nats per token; N: " + fit["counted"],
        *(
            f"  {name:5} {fit[name]:>11.4g}   ({low:.4g} to {high:.4g})"
            for name, (low, high) in fit["intervals"].items()
        ),
        f"  {fit['level']:.0%} intervals, {fit['runs']} runs; they differ from the law by {fit['spread']:.2%}",
        "  check, by variable projection: "
        + ", ".join(f"{name} {fit['check'][name]:.4g}" for name in fit["intervals"]),
    ]
    for name, curve in result["curves"].items():
        if curve is not None:
            low, high = curve["exponent_interval"]
            lines.append(f"  L({name}) on its own falls as {name}^-{curve['exponent']:.3f} ({low:.3f} to {high:.3f})")
    if last is not None:
        lines.append(
            f"left out: {last['name']}, {last['times_compute']:.1f} times the compute of any other: predicted "
            f"{last['predicted']:.4f} ({last['interval'][0]:.4f} to {last['interval'][1]:.4f}), measured "
            f"{last['measured']:.4f}: {last['error']:.2%} off; the largest run in the fit has {last['naive']:.4f}, "
            f"{last['naive_error']:.2%} off"
        )
        if not last["far_enough"]:
            lines.append("  it has less than twice the compute of another run, so this prediction says little")
    for one in [*result["optimal"], *result.get("predicted", [])]:
        if one["parameters"] is None:
            lines.append(f"{one['compute']:.2e} FLOPs: no best size: these losses do not show one of the two terms")
            continue
        times = one.get("times_largest", 1.0)
        far = f" ({times:.3g} times the largest run)" if times > 1 or times < BELOW else ""
        lines.append(
            f"{one['compute']:.2e} FLOPs{far}: best {one['parameters']:.3g} parameters on {one['tokens']:.3g} tokens, "
            f"loss {one['loss']:.3f} ({one['loss_interval'][0]:.3f} to {one['loss_interval'][1]:.3f})"
        )
    for row in result.get("probes", []):
        said = [f"{row['name']}:"]
        if "induction" in row:
            said.append(f"repeated {row['induction']['second']:.2f} nats, before {row['induction']['first']:.2f}")
        if "fewshot" in row:
            said.append(
                "right " + ", ".join(f"{share:.0%} of {shots} shots" for shots, share in row["fewshot"].items())
            )
        lines.append("  ".join(said))
    return [*lines, *result["notes"], *([f"saved in {result['out']}"] if result["out"] else [])]
