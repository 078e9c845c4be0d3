"""Plots of how things grow: the loss and abilities of a scaling study by size; time and memory by length and width.

They are drawn from the results that ``headway scale --json`` and ``headway bench --json`` print.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.io.quantities import short_count
from headway.reports.plots import COLOURS, line, logarithmic, plotted

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
