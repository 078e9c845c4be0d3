"""Plots as PNG and SVG: one style, colour-blind safe, readable at the width of a README.

with plotted(folder / "loss", columns=2) as (left, right):
    left.plot(x, y, **line(0), label="Transformer")
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.io.quantities import short_count

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#595959", "#000000")
"""The colour-blind safe colours of Okabe and Ito (2008), the darker first."""
MARKERS = "osD^vPX*"
LOOK: Any = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#d5dae0",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "headway",
    "svg.fonttype": "none",
}
MISSING = "Drawing plots needs matplotlib: pip install 'headway[plots]'."


class NoMatplotlib(InputError):
    """The extra that draws is missing."""


def line(number: int) -> dict[str, Any]:
    """Colour and marker of the n-th line, from 0: distinct without colour too."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 4.5}


@contextlib.contextmanager
def plotted(place: Path, *, columns: int = 1, rows: int = 1, width: float = 7.5, height: float = 4.2) -> Iterator[Any]:
    """The list of the axes of a figure of ``width`` × ``height`` inches, which is saved on exit.

    ``place`` is without an ending: ``.png`` and ``.svg`` are added.  Raises NoMatplotlib without it.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise NoMatplotlib(MISSING) from None
    with rc_context(LOOK):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure.subplots(rows, columns, squeeze=False).flatten().tolist()
        place.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(place.with_name(place.name + ".png"), dpi=150)
        figure.savefig(place.with_name(place.name + ".svg"), metadata={"Date": None})


def logarithmic(axes: Any, *, both: bool = False, words: bool = True) -> None:
    """Round numbers on a logarithmic axis, also where it spans less than a power of ten; with ``words`` as 200 k."""
    axes.set_xscale("log")
    if both:
        axes.set_yscale("log")
    round_ticks(axes.xaxis)
    if words:
        axes.xaxis.set_major_formatter(lambda value, _: short_count(value))


def round_ticks(axis: Any) -> None:
    """Ticks at 1, 2, 5 and 10 on a logarithmic axis of less than two powers of ten, else at powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=9))
    axis.set_minor_formatter(NullFormatter())


def legend_beside(axes: Any) -> None:
    """The legend to the right of the axes, where it covers nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


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


GREY = "#595959"
AXES = {"length": ("T", "length T (tokens)"), "width": ("D", "width D")}
MEASURES = {"seconds": ("time of a forward pass (ms)", 1e3), "bytes": ("peak memory of a forward pass (MiB)", 2.0**-20)}
"""What costs are drawn against, and what they are: labels and units."""


@dataclass(frozen=True)
class Lines:
    """The predictions of a law, to plot next to the measurements."""

    loss: Callable[[Any, Any], Any]
    """N and D -> nats per token"""
    best: Callable[[np.ndarray], dict[str, np.ndarray]]
    """C -> the best N by each law, by its name; this study's first"""


def draw_study(study: dict[str, Any], law: Lines, folder: Path) -> list[Path]:
    """Write the plots to ``folder``; returns their paths without endings.  Raises InputError without matplotlib."""
    drawn = [folder / "loss", folder / "compute", folder / "optimal"]
    for draw, place in zip((_loss, _compute, _optimal), drawn, strict=True):
        draw(place, study, law)
    if study.get("probes"):
        drawn.append(folder / "abilities")
        _abilities(drawn[-1], study["probes"])
    return drawn


def _loss(place: Path, study: dict[str, Any], law: Lines) -> None:
    """The loss against N for each D, and against D for each N."""
    rows = [row for row in study["rows"] if not row["held_out"]]
    last = study["held_out"]
    sides = (("N", "tokens", "parameters N", "tokens D"), ("tokens", "N", "tokens D", "parameters N"))
    with plotted(place, columns=2, width=8.6, height=4.2) as axes:
        for panel, (x, other, x_label, legend) in zip(axes, sides, strict=True):
            reach = np.geomspace(min(row[x] for row in rows), max(row[x] for row in rows), 60)
            for i, (value, own) in enumerate(_by(rows, other, x)):
                style = line(i)
                at, losses = [row[x] for row in own], [row["loss"] for row in own]
                panel.plot(at, losses, **style, linestyle="", label=short_count(value))
                fitted = law.loss(reach, value) if x == "N" else law.loss(value, reach)
                panel.plot(reach, fitted, color=style["color"], linewidth=1.2)
            if last is not None:
                _held_out(panel, last["parameters"] if x == "N" else last["tokens"], last)
            logarithmic(panel)
            panel.set_xlabel(x_label)
            _legend(panel, legend)
        axes[0].set_ylabel("loss, nats per token")


def _compute(place: Path, study: dict[str, Any], law: Lines) -> None:
    """The loss against C, with the lowest loss by the law for each C and the run that was left out."""
    rows = [row for row in study["rows"] if not row["held_out"]]
    last = study["held_out"]
    with plotted(place, width=7.5, height=4.4) as (panel,):
        for i, (value, own) in enumerate(_by(rows, "N", "compute")):
            at, losses = [row["compute"] for row in own], [row["loss"] for row in own]
            panel.plot(at, losses, **line(i), linewidth=1.0, label=short_count(value))
        ends = [row["compute"] for row in study["rows"]]
        budgets = np.geomspace(min(ends), 3 * max(ends), 60)
        sizes = next(iter(law.best(budgets).values()))
        least = law.loss(sizes, budgets / 6 / sizes)
        panel.plot(budgets, least, color="#000000", linestyle="--", label="best N and D, by the law")
        if last is not None:
            _held_out(panel, last["compute"], last)
            panel.axhline(last["naive"], color=GREY, linewidth=0.8, linestyle=":", label="largest run in the fit")
        logarithmic(panel, words=False)
        panel.set(xlabel="compute C = 6 N D, FLOPs", ylabel="loss, nats per token")
        _legend(panel, "parameters N", ncols=2)


def _optimal(place: Path, study: dict[str, Any], law: Lines) -> None:
    """The best N for a budget, by this law and the published ones, and the tokens per parameter."""
    ends = [row["compute"] for row in study["rows"]]
    budgets = np.geomspace(min(ends), max(max(ends) * 100, 1e24), 9)
    with plotted(place, columns=2, width=8.6, height=4.0) as (left, right):
        for i, (name, sizes) in enumerate(law.best(budgets).items()):
            style = {"color": COLOURS[i], "linestyle": ("-", "--", "-.", ":")[i], "linewidth": 2.4 if i == 0 else 1.6}
            left.plot(budgets, sizes, **style, label=name)
            right.plot(budgets, budgets / 6 / sizes**2, **style)
        for panel, label in ((left, "best parameters N"), (right, "tokens per parameter, D / N")):
            panel.axvspan(min(ends), max(ends), color="#d5dae0", alpha=0.6, linewidth=0)
            logarithmic(panel, both=True, words=False)
            panel.set(xlabel="compute C, FLOPs (grey: measured here)", ylabel=label)
        left.legend(fontsize=8)


def _abilities(place: Path, probes: list[dict[str, Any]]) -> None:
    """The abilities of each size, by training tokens."""
    wanted = [name for name in ("induction", "fewshot") if name in probes[0]]
    with plotted(place, columns=len(wanted), width=4.3 * len(wanted) + 0.6, height=4.2) as axes:
        for panel, name in zip(axes, wanted, strict=True):
            for i, size in enumerate(sorted({row["parameters"] for row in probes})):
                own = sorted((row for row in probes if row["parameters"] == size), key=lambda row: row["tokens"])
                if name == "induction":
                    values = [row[name]["second"] - row[name]["first"] for row in own]
                else:
                    values = [row[name][max(row[name], key=int)] for row in own]
                panel.plot([row["tokens"] for row in own], values, **line(i), label=short_count(size))
            panel.axhline(0.0 if name == "induction" else 0.25, color=GREY, linewidth=0.8, linestyle=":")
            if name == "induction":
                low, high = panel.get_ylim()
                panel.set_ylim(min(-1.0, low), max(0.5, high))  # otherwise noise would look like an ability
                panel.set_ylabel("loss on the repetition minus loss before, nats")
            else:
                shown = max(probes[0][name], key=int)
                panel.set(ylim=(0, 1), ylabel=f"right answers of 4, each pair shown {shown} times")
            logarithmic(panel)
            panel.set_xlabel("tokens D")
            _legend(panel, "parameters N")


def _legend(panel: Any, title: str, **more: Any) -> None:
    panel.legend(title=title, fontsize=8, title_fontsize=8, **more)


def _held_out(panel: Any, x: float, last: dict[str, Any]) -> None:
    """The run that was left out: its predicted loss, with the interval, and its measured loss."""
    low, high = last["interval"]
    reach = [[max(0.0, last["predicted"] - low)], [max(0.0, high - last["predicted"])]]
    panel.errorbar(
        [x], [last["predicted"]], yerr=reach, color="#000000", marker="_", markersize=11, capsize=4, label="predicted",
    )  # fmt: skip
    panel.plot([x], [last["measured"]], color="#d55e00", marker="*", markersize=11, linestyle="", label="measured")


def _by(rows: list[dict[str, Any]], key: str, order: str) -> list[tuple[float, list[dict[str, Any]]]]:
    """The rows by the value of ``key``, within 1 %, each group in the order of another."""
    groups: list[tuple[float, list[dict[str, Any]]]] = []
    for row in sorted(rows, key=lambda row: (row[key], row[order])):
        if not groups or abs(row[key] / groups[-1][0] - 1) >= 0.01:
            groups.append((row[key], []))
        groups[-1][1].append(row)
    return [(value, sorted(group, key=lambda row: row[order])) for value, group in groups]


def draw_costs(result: dict[str, Any], folder: Path) -> list[str]:
    """Plot the result of ``workflows.bench.cost_curves``: cost-length and cost-width, if there are such rows.

    Points are medians with bars from the smallest to the largest repeat; a dashed line is c Tᵉ over the sizes it was
    fitted on.  Returns the names.  Raises InputError if matplotlib is missing.
    """
    drawn = [axis for axis in AXES if any(row["axis"] == axis for row in result["rows"])]
    for axis in drawn:
        rows = [row for row in result["rows"] if row["axis"] == axis]
        fits = {fit["kind"]: fit for fit in result["fits"] if fit["axis"] == axis}
        with plotted(folder / f"cost-{axis}", columns=2, width=9.0, height=4.0) as panels:
            from matplotlib.ticker import LogLocator

            for panel, (measure, (label, unit)) in zip(panels, MEASURES.items(), strict=True):
                for n, kind in enumerate(dict.fromkeys(row["kind"] for row in rows)):
                    chosen = [row for row in rows if row["kind"] == kind and row[measure] > 0]
                    _cost(panel, n, axis, measure, unit, chosen, fits[kind])
                panel.set(xscale="log", yscale="log", xlabel=AXES[axis][1], ylabel=label)
                ticks = sorted({row[axis] for row in rows})
                ticks = ticks[:: -(-len(ticks) // 7)]
                panel.set_xticks(ticks, [f"{size:,}" for size in ticks], rotation=30)
                panel.xaxis.minorticks_off()
                panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                panel.yaxis.set_major_formatter("{x:g}")
                panel.yaxis.minorticks_off()
                panel.legend(fontsize=9)
    return [f"cost-{axis}" for axis in drawn]


def _cost(panel: Any, n: int, axis: str, measure: str, unit: float, rows: list[dict[str, Any]], fit: Any) -> None:
    sizes, values = [row[axis] for row in rows], [row[measure] * unit for row in rows]
    power = fit[measure]
    label = rows[0]["kind"] if rows else ""
    if power is not None:
        label += f": {AXES[axis][0]}^{power['exponent']:.2f}"
        ends = [power["sizes"][0], power["sizes"][-1]]
        heights = [power["factor"] * size ** power["exponent"] * unit for size in ends]
        panel.plot(ends, heights, color=line(n)["color"], ls="--", lw=1.2)
    panel.plot(sizes, values, **line(n), ls="none", label=label)
    if measure == "seconds":
        low, high = ([row["spread"][end] * unit for row in rows] for end in (0, 1))
        panel.vlines(sizes, low, high, color=line(n)["color"], lw=1.2)
