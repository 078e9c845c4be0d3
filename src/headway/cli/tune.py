"""``headway tune``: search the training options, and keep the best model."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from headway.api import default_out, save_report
from headway.cli.common import Answer, Headed, aligned, verb
from headway.cli.train import HEADINGS, Train, given_options, out_option, training_options, validation_option
from headway.errors import InputError
from headway.io import quantities
from headway.reports.record import read_record
from headway.reports.verdict import interval, kept_in_words, verdict
from headway.tasks.registry import spec
from headway.training.option_fields import flag
from headway.training.options import TrainOptions

TEXTS = {
    "time": "time for the whole search, such as 30m or 2h [default: 30m]",
    "steps": "optimizer steps of each trial, instead of a time",
}
"""Help of options that differ from train's."""
SHOWN = 5
"""Number of trials in the final table."""


@verb(Train)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option(
    "--trials",
    type=int,
    default=20,
    show_default=True,
    cls=Headed,
    heading=HEADINGS["run"],
    help="Number of trials; the first is the preset.",
)
@out_option("Output directory. [default: runs/ and the input's name, -tuned]")
@validation_option
@(lambda function: training_options(function, TEXTS))
def command(
    inputs: tuple[str, ...],
    trials: int,
    out: str | None,
    validation: tuple[str, ...],
    progress: Any,
    **options: Any,
) -> Answer:
    """Train on INPUT with different learning rates, sizes, dropout, batches and so on, and keep the best model.

    Each trial is its own run in OUT/trials, with an equal part of the time and the same held-out data; the first is
    what train would do.  An option that you give, such as --d-model 64, is the same in all trials.  At the end OUT
    holds the best trial's run: use it with headway classify OUT and so on.  Run the same command again to resume a
    search; raise --trials and --time to extend a complete one.  Needs Optuna: pip install 'headway[tune]'.
    """
    from headway.cli.main import STARTED
    from headway.reports.plots import plot_tuning
    from headway.science.tune import tune
    from headway.training.loop.trainer import Interrupted

    chosen = TrainOptions(**given_options(options))
    usual = default_out(inputs)
    place = Path(out) if out is not None else usual.with_name(f"{usual.name}-tuned")
    line = ["headway", *(shlex.quote(word) for word in sys.argv[1:])]
    given: dict[str, Any] = {"validation": validation, "started": STARTED, "progress": progress, "command": line}
    try:
        result = tune(inputs, chosen, trials=trials, out=place, **given)
    except Interrupted:
        raise KeyboardInterrupt(f"stopped; run the same command again to resume the search in {place}") from None
    save_report(place, progress)
    try:
        result["plots"] = [str(path) for path in plot_tuning(result, place)]
    except (InputError, OSError) as error:  # matplotlib is missing or the disk is full; the search is still valid
        result["plots"] = []
        progress.warn(str(error))
    record = read_record(place)
    said = [verdict(record), *kept_in_words(record.info.get("kept"))]
    words = (*inputs, *(word for path in validation for word in ("--validation", path)))
    return Answer(result, lines(result, words, said))


def lines(result: dict[str, Any], inputs: Sequence[str], verdict: Sequence[str] = ()) -> list[str]:
    """The summary of a search, as lines: the best trials, how certain they are, the verdict, and what mattered.

    ``inputs`` are the words of the command that name the training data.
    """
    from headway.science.tune import in_words

    measure, best = result["measure"], result["best"]
    complete = sorted((one for one in result["trials"] if one["state"] == "complete"), key=lambda one: one["value"])
    states = ("pruned", "failed", "interrupted")
    counts = {state: sum(one["state"] == state for one in result["trials"]) for state in states}
    rows = [("trial", measure, *(["accuracy"] if result["accuracy"] is not None else []), "options")]
    kept = complete[:SHOWN] + [one for one in complete[SHOWN:] if one["preset"]]
    for one in kept:
        measured = [one["value"], *([one["metrics"]["accuracy"]] if len(rows[0]) == 4 else [])]
        numbers = [quantities.metric(value) for value in measured]
        rows.append((str(one["number"]), *numbers, in_words(one["options"]) + " (the preset)" * one["preset"]))
    options = " ".join(
        f"--{flag(name)} {shlex.quote(str(value))}".removesuffix(" True") for name, value in result["options"].items()
    )
    said = [
        *aligned(rows),
        f"{len(complete)} trials complete, {counts['pruned']} pruned, {counts['failed']} failed, "
        + f"{counts['interrupted']} interrupted and tried again, " * (counts["interrupted"] > 0)
        + quantities.duration(result["seconds"]),
        *_how_sure(result),
        *verdict,
    ]
    if result["importance"]:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in list(result["importance"].items())[:4])
        said.append(f"what made the difference (fANOVA, from few trials): {shares}")
    task = spec(result["task"])
    use = f"headway {task.verb} {result['out']} {task.argument}"
    said.append(f"saved in {result['out']}, the model of trial {best['trial']}: {use} uses it")
    return [*said, f"to train it again: headway train {shlex.join(inputs)} {options}"]


def _how_sure(result: dict[str, Any]) -> list[str]:
    """How much better the best trial is, and how certain that is."""
    best, noise, measure = result["best"], result["noise"], result["measure"]
    said = [f"measured on {noise['held_out']}"]
    if noise["accuracy_error"]:
        said.append(f"which give an accuracy ± {noise['accuracy_error']:.3f} (one standard error)")
    if noise["second"] is not None:
        gap = noise["second"]["value"] - best["value"]
        said.append(f"the next best, trial {noise['second']['trial']}, is {quantities.metric(gap)} worse in {measure}")
        if between := interval(noise["second"].get("interval")):
            lower = result["accuracy"] - noise["second"]["accuracy"]
            said.append(f"its accuracy is lower by {quantities.metric(lower)} ({between})")
        else:
            said[-1] += " (no interval from one run each)"
    optimistic = "the held-out part chose the best trial, so its figures here are optimistic"
    return ["; ".join(said), f"{optimistic}: measure it on other data with `headway evaluate {result['out']} FILE`"]
