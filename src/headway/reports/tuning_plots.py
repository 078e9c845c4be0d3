"""Plots of a search: its history, the importance of each option, and the result of each value."""

from pathlib import Path
from typing import Any

from headway.reports.plots import COLOURS, plotted

STATES = {"complete": ("complete", 0), "pruned": ("pruned", 6)}
"""States of trials with a value: label and colour."""
MOST_OPTIONS = 6
"""Maximum options whose values are plotted, the most important first."""
COLUMNS = 3


def plot_tuning(result: dict[str, Any], out: Path) -> list[Path]:
    """Write tuning-history, tuning-importance and tuning-values (.png and .svg) into ``out``; returns what was drawn.

    ``result`` is the result of ``science.tune``.  The importance is left out if it could not be computed.  Raises
    InputError without matplotlib.
    """
    plots = {"history": _history, "importance": _importance, "values": _values}
    drawn = ["history", *["importance"] * bool(result["importance"]), *["values"] * bool(result["space"])]
    for name in drawn:
        plots[name](result, out / f"tuning-{name}")
    return [out / f"tuning-{name}{ending}" for name in drawn for ending in (".png", ".svg")]


def best_so_far(trials: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """The trials that were better than all earlier ones, with their values."""
    best: list[tuple[int, float]] = []
    for one in trials:
        if one["state"] == "complete" and (not best or one["value"] < best[-1][1]):
            best.append((one["number"], one["value"]))
    return best


def _history(result: dict[str, Any], place: Path) -> None:
    trials = result["trials"]
    with plotted(place) as (axes,):
        for state, (words, colour) in STATES.items():
            points = [(one["number"], one["value"]) for one in trials if one["state"] == state]
            if points:
                marker = "o" if state == "complete" else "x"
                axes.scatter(*zip(*points, strict=True), color=COLOURS[colour], marker=marker, label=words, zorder=3)
        steps = best_so_far(trials)
        last = max((one["number"] for one in trials), default=0)
        ends = [*steps, (last, steps[-1][1])]
        axes.step(*zip(*ends, strict=True), where="post", color=COLOURS[1], label="best so far")
        failed = [one["number"] for one in trials if one["state"] == "failed"]
        if failed:
            bottom = axes.get_ylim()[0]
            axes.scatter(failed, [bottom] * len(failed), color=COLOURS[7], marker="|", s=80, label="failed")
        axes.set(xlabel="trial (0 is the preset)", ylabel=_measure(result))
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend()


def _importance(result: dict[str, Any], place: Path) -> None:
    shares = list(reversed(result["importance"].items()))
    with plotted(place, height=1.4 + 0.3 * len(shares)) as (axes,):
        axes.barh([name for name, _ in shares], [100 * share for _, share in shares], color=COLOURS[0])
        axes.set_xlabel(f"importance for {result['measure']} (% of the variance, fANOVA)")
        axes.grid(axis="y", visible=False)
        axes.set_axisbelow(True)


def _values(result: dict[str, Any], place: Path) -> None:
    """The value of the trials against the options, the most important first."""
    names = list(result["importance"] or result["space"])[:MOST_OPTIONS]
    rows = -(-len(names) // COLUMNS)
    columns = min(len(names), COLUMNS)
    with plotted(place, columns=columns, rows=rows, height=2.6 * rows + 0.5) as every:
        for number, axes in enumerate(every):
            if number < len(names):
                _against(result, names[number], axes)
                if number % columns == 0:
                    axes.set_ylabel(_measure(result))
            else:
                axes.axis("off")
        every[0].figure.legend(*every[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


def _against(result: dict[str, Any], name: str, axes: Any) -> None:
    """The trials' values against one option, over its search range; the best and the preset are marked."""
    about = result["space"][name]
    complete = [one for one in result["trials"] if one["state"] == "complete" and name in one["options"]]
    choices = about.get("values")

    def points(chosen: list[dict[str, Any]]) -> tuple[list[Any], list[float]]:
        values = [one["options"][name] for one in chosen]
        return [choices.index(value) if choices else value for value in values], [one["value"] for one in chosen]

    axes.plot(*points(complete), "o", color=COLOURS[0], markersize=4.5, label="a trial")
    best = [one for one in complete if one["number"] == result["best"]["trial"]]
    axes.plot(*points(best), "*", color=COLOURS[1], markersize=11, label="the best")
    preset = [one for one in complete if one["preset"]]
    axes.plot(
        *points(preset), "s", color=COLOURS[2], markersize=11, fillstyle="none", markeredgewidth=1.8, label="preset"
    )
    if choices:
        names = [f"{value:g}" if isinstance(value, float) else str(value) for value in choices]
        axes.set_xticks(range(len(choices)), names)
        axes.set_xlim(-0.5, len(choices) - 0.5)
    else:
        low, high = about["low"], about["high"]
        axes.set_xscale("log" if about["log"] else "linear")
        room = (high / low) ** 0.05 if about["log"] else 0.05 * (high - low)
        axes.set_xlim(*((low / room, high * room) if about["log"] else (low - room, high + room)))
        if about["log"]:
            at = [low, about["preset"], high]
            axes.set_xticks(at, [f"{value:.2g}" for value in at])
            axes.minorticks_off()
        elif about["whole"]:
            axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(name)


def _measure(result: dict[str, Any]) -> str:
    """The measure that compares trials, with its unit."""
    units = {"val_loss": "validation loss (nats)", "error": "validation error (fraction)"}
    return units.get(result["measure"], result["measure"])
