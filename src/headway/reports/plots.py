"""Plots as PNG and SVG: one style, colour-blind safe, readable at the width of a README.

with plotted(folder / "loss", columns=2) as (left, right):
    left.plot(x, y, **line(0), label="Transformer")
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
