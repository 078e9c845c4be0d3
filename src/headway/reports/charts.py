"""Line charts as SVG, without scripts: round ticks, thinned curves, labels that do not overlap.

Python says where things are; ``templates/chart.html`` draws them.
"""

import itertools
import math
import textwrap
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from headway.io.quantities import time_unit
from headway.reports.page import render
from headway.reports.record import Point
from headway.reports.wording import decimal, short_name

MOST_POINTS = 400
MOST_MARKS = 40
LINE_HEIGHT = 14
UNITS = {"s": "seconds", "min": "minutes", "h": "hours"}
TOP, LEFT = 26, 52
SIZES = ((720, 160, 19), (350, 106, 12))
"""For wide and for narrow screens: the width, that of the right margin, and letters in a line of it."""


@dataclass(frozen=True)
class Line:
    """A curve; ``style`` is the CSS class that colours it; without a name it has no label."""

    name: str
    points: list[Point]
    style: str
    marks: bool = False


@dataclass(frozen=True)
class Chart:
    """The content of a chart: curves, and ``levels``, the baselines, as dashed horizontal lines with name and value."""

    title: str
    y_label: str
    lines: list[Line]
    levels: list[tuple[str, float]] = field(default_factory=list)
    seconds: list[Point] = field(default_factory=list)
    ring: Point | None = None
    highest: float | None = None
    from_zero: bool = False
    height: int = 320


@dataclass(frozen=True)
class Frame:
    """The plot area in its image, and the mapping of values to pixels."""

    left: int
    right: int
    base: int
    x: Point
    """the first and the last value of the axis"""
    y: Point

    def across(self, x: float) -> float:
        """Pixels from the left edge."""
        low, high = self.x
        return self.left + (x - low) / (high - low) * (self.right - self.left)

    def down(self, y: float) -> float:
        """Pixels from the top edge; values outside the axis are drawn at its ends."""
        low, high = self.y
        return self.base - (min(max(y, low), high) - low) / (high - low) * (self.base - TOP)


def draw(chart: Chart) -> Markup:
    """The chart twice, for wide and for narrow screens (the style sheet shows one); empty without any point."""
    if not any(line.points for line in chart.lines):
        return Markup("")
    wide, narrow = (_drawing(chart, *sizes) for sizes in SIZES)
    return Markup(render("chart.html", chart=chart, wide=wide, narrow=narrow))


def _drawing(chart: Chart, width: int, margin: int, letters: int) -> dict[str, Any]:
    """What the template draws in one size."""
    lines = [(line, thin(line.points)) for line in chart.lines if line.points]
    frame = _frame(chart, lines, width - margin)
    named = [
        (f"{short_name(name)} {decimal(y)}", y, f"level level{index % 4}")
        for index, (name, y) in enumerate(chart.levels)
    ]
    ends = [(line.name, points[-1][1], line.style) for line, points in lines if line.name]
    ends = [(f"{name} {decimal(y)}", y, style) for name, y, style in ends]
    y_ticks = ticks(*frame.y, 7 if chart.height > 250 else 4)
    x_ticks = [x for x in ticks(*frame.x, 10 if width > 500 else 5) if x == int(x)]
    unit_size, unit = time_unit(chart.seconds[-1][1] / 3) if chart.seconds else (1, "")
    times = [_time(chart, x, unit_size) for x in x_ticks]
    return {
        "width": width,
        "frame": frame,
        "y_ticks": zip(y_ticks, tick_labels(y_ticks), strict=True),
        "x_ticks": zip(x_ticks, tick_labels(x_ticks), times, strict=True),
        "x_label": f"step, and below it the time in {UNITS[unit]}" if chart.seconds else "step",
        "levels": [(y, style) for _, y, style in named],
        "curves": [_curve(line, points, frame) for line, points in lines],
        "labels": _labels(named + ends, frame, letters),
    }


def _frame(chart: Chart, lines: list[tuple[Line, list[Point]]], right: int) -> Frame:
    xs = [x for _, points in lines for x, _ in points]
    ys = [y for _, points in lines for _, y in points]
    levels = [value for _, value in chart.levels]
    must_show = levels + [y for line, points in lines if line.marks for _, y in points]
    low, high = min([*ys, *levels]), ceiling(ys, must_show)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    low = 0.0 if chart.from_zero or 0 <= low < room else low - room
    high = high + room if chart.highest is None else max(high, min(high + room, chart.highest))
    x_low = min(0.0, *xs)
    base = chart.height - (52 if chart.seconds else 38)
    return Frame(LEFT, right, base, (x_low, max([*xs, x_low + 1])), (low, high))


def _time(chart: Chart, x: float, unit_size: float) -> str:
    """The time at a step, in units of so many seconds; empty where it is not known."""
    time = interpolate(chart.seconds, x) if x else None
    if time is None:
        return ""
    return f"{time / unit_size:.2g}" if time < 10 * unit_size else f"{time / unit_size:,.0f}"


def _curve(line: Line, points: list[Point], frame: Frame) -> tuple[str, Markup, list[Point]]:
    """The style of a curve, its path, and the places of its marks."""
    places = [(frame.across(x), frame.down(y)) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places) if len(places) > 1 else ""
    marked = len(places) == 1 or (line.marks and len(places) <= MOST_MARKS)
    return line.style, Markup(path), places if marked else []


def _labels(labels: list[tuple[str, float, str]], frame: Frame, letters: int) -> list[dict[str, Any]]:
    """Names in the right margin, pushed apart, each tied to its line by a stub in the line's own colour and dash."""
    wrapped = [textwrap.wrap(text, letters) or [""] for text, _, _ in labels]
    ends = [frame.down(value) for _, value, _ in labels]
    heights = [LINE_HEIGHT * len(rows) + 4.0 for rows in wrapped]
    centres = spread(ends, heights, TOP - 12, frame.base + 12)
    placed = []
    for (_, _, style), rows, end, centre in zip(labels, wrapped, ends, centres, strict=True):
        first = centre - LINE_HEIGHT * (len(rows) - 1) / 2 + 4
        lines = [(first + LINE_HEIGHT * index, row) for index, row in enumerate(rows)]
        placed.append({"style": style, "end": end, "centre": centre, "lines": lines})
    return placed


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most ``most`` (two or more) round numbers, 1, 2 or 5 times a power of ten apart, within [low, high]."""
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10, 20, 50):
        step = factor * power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
    return [round(index * step, 12) for index in range(first, last + 1)]


def tick_labels(values: list[float]) -> list[str]:
    """The ticks as text, all with the same decimals; from 10,000 on in thousands, as 10k."""
    step = min((b - a for a, b in itertools.pairwise(values)), default=abs(values[0]) if values else 0)
    if not step:
        return [f"{value:g}" for value in values]
    largest = max(abs(value) for value in values)
    if largest < 1e-3 or largest >= 1e7:
        return ["0" if value == 0 else f"{value:.4g}" for value in values]
    if largest >= 1e4 and step >= 100:
        return [f"{value / 1000:g}k" if value else "0" for value in values]
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{value:,.{places}f}" if value else "0" for value in values]


def thin(points: list[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most ``most`` points: each the mean of a bucket of neighbours. Fewer points are returned as they are."""
    if len(points) <= most:
        return points
    edges = [index * len(points) // most for index in range(most + 1)]
    buckets = [points[start:stop] for start, stop in itertools.pairwise(edges)]
    return [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in buckets]


def spread(wanted: list[float], heights: list[float], low: float, high: float) -> list[float]:
    """Centres for labels as near as possible to ``wanted`` without overlap, inside [low, high] where they fit."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    centres = list(wanted)
    edge = low
    for index in order:
        centres[index] = max(wanted[index], edge + heights[index] / 2)
        edge = centres[index] + heights[index] / 2
    edge = high
    for index in reversed(order):
        centres[index] = min(centres[index], edge - heights[index] / 2)
        edge = centres[index] - heights[index] / 2
    return centres


def interpolate(points: list[Point], x: float) -> float | None:
    """The value at ``x`` on the straight lines through ``points`` (sorted by x); None outside of them."""
    at = bisect_left(points, (x, -math.inf))
    if at < len(points) and points[at][0] == x:
        return points[at][1]
    if at in (0, len(points)):
        return None
    (x0, y0), (x1, y1) = points[at - 1], points[at]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def ceiling(values: list[float], must_show: list[float]) -> float:
    """The top of a vertical axis: the highest value, unless rare spikes far above the rest would flatten the curve."""
    usual = sorted(values)[int(0.95 * (len(values) - 1))]
    top = max(values)
    if usual > 0 and top > 6 * usual:
        return max([1.5 * usual, *must_show])
    return max([top, *must_show])
