"""Plots of a search: its course, the importance of each option, and what each value gave."""

from pathlib import Path
from typing import Any

from headway.reports.plots import COLOURS, line, plotted

STATES = {"complete": ("complete", 0), "pruned": ("given up", 6)}
"""States that have a value, in words and with a colour."""
MOST_OPTIONS = 6
"""Options whose values are drawn, the most important first."""
COLUMNS = 3


def plot_tuning(found: dict[str, Any], out: Path) -> list[Path]:
    """Write tuning-history, tuning-importance and tuning-values (.png and .svg) into ``out``; returns what was drawn.

    ``found`` is what ``science.tune`` returns.  The importance is left out where it could not be computed.  Raises
    InputError without matplotlib.
    """
    drawn = [_history(found, out / "tuning-history")]
    if found["importance"]:
        drawn.append(_importance(found, out / "tuning-importance"))
    if found["space"]:
        drawn.append(_values(found, out / "tuning-values"))
    return [path.with_name(path.name + ending) for path in drawn for ending in (".png", ".svg")]


def best_so_far(trials: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """The trials that were better than all before them, with their values."""
    found: list[tuple[int, float]] = []
    for one in trials:
        if one["state"] == "complete" and (not found or one["value"] < found[-1][1]):
            found.append((one["number"], one["value"]))
    return found


def _history(found: dict[str, Any], place: Path) -> Path:
    """The value of each trial, and the best so far."""
    trials = found["trials"]
    with plotted(place) as axes:
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
        axes.set_xlabel("trial (0 is the preset)")
        axes.set_ylabel(_measure(found))
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend()
    return place


def _importance(found: dict[str, Any], place: Path) -> Path:
    """The share of each option in how the values differ."""
    shares = list(reversed(found["importance"].items()))
    with plotted(place, height=1.4 + 0.3 * len(shares)) as axes:
        axes.barh([name for name, _ in shares], [100 * share for _, share in shares], color=COLOURS[0])
        axes.set_xlabel(f"share of the differences in {found['measure']} (%), fANOVA")
        axes.grid(axis="y", visible=False)
    return place


def _values(found: dict[str, Any], place: Path) -> Path:
    """The value of the trials against the options, the most important first."""
    names = list(found["importance"] or found["space"])[:MOST_OPTIONS]
    rows = -(-len(names) // COLUMNS)
    columns = min(len(names), COLUMNS)
    with plotted(place, columns=columns, rows=rows, height=2.6 * rows + 0.2) as all_axes:
        every = all_axes if isinstance(all_axes, list) else [all_axes]
        for number, axes in enumerate(every):
            if number < len(names):
                _against(found, names[number], axes)
                if number % columns == 0:
                    axes.set_ylabel(_measure(found))
            else:
                axes.axis("off")
    return place


def _against(found: dict[str, Any], name: str, axes: Any) -> None:
    """The trials' values against one option; the preset and the best are marked."""
    about = found["space"][name]
    complete = [one for one in found["trials"] if one["state"] == "complete" and name in one["options"]]
    choices = about.get("values")

    def at(value: Any) -> Any:
        return choices.index(value) if choices else value

    axes.plot(
        [at(one["options"][name]) for one in complete],
        [one["value"] for one in complete],
        **{**line(0), "linestyle": "none"},
    )
    for number, colour, marker in ((found["best"]["trial"], 1, "*"), ((found["preset"] or {}).get("trial"), 2, "s")):
        for one in complete:
            if one["number"] == number:
                axes.plot(at(one["options"][name]), one["value"], marker=marker, color=COLOURS[colour], markersize=9)
    if choices:
        axes.set_xticks(range(len(choices)), [str(value) for value in choices])
        axes.set_xlim(-0.5, len(choices) - 0.5)
    elif about["log"]:
        axes.set_xscale("log")
    axes.set_xlabel(name)


def _measure(found: dict[str, Any]) -> str:
    """What trials are compared by, with its unit."""
    units = {"val_loss": "validation loss (nats)", "error": "validation error (share)"}
    return units.get(found["measure"], found["measure"])
