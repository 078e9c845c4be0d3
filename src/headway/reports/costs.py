"""Plots of how time and memory grow: ``bench``'s measurements on log-log axes, with the fitted lines."""

from pathlib import Path
from typing import Any

from headway.reports.plots import line, plotted

AXES = {"length": ("T", "length T (tokens)"), "width": ("D", "width D")}
MEASURES = {"seconds": ("time of a forward pass (ms)", 1e3), "bytes": ("peak memory of a forward pass (MiB)", 2.0**-20)}


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
                    _draw_kind(panel, n, axis, measure, unit, chosen, fits[kind])
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


def _draw_kind(panel: Any, n: int, axis: str, measure: str, unit: float, rows: list[dict[str, Any]], fit: Any) -> None:
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
