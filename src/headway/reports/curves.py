"""Line charts as inline SVG: lines are labelled directly and differ in dashes and marks as well as in colour."""

import textwrap
from dataclasses import dataclass, field

from headway.io.quantities import time_unit
from headway.reports.axes import MOST_POINTS, ceiling, interpolate, spread, thin, tick_labels, ticks
from headway.reports.record import Point
from headway.reports.wording import Html, decimal, escape, short_name

MOST_MARKS = 40
LINE_HEIGHT = 14
UNITS = {"s": "seconds", "min": "minutes", "h": "hours"}
TOP, LEFT = 26, 52


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

    width: int
    height: int
    right: int
    bottom: int
    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, x: float) -> float:
        """Pixels from the left edge."""
        low, high = self.x
        return LEFT + (x - low) / (high - low) * (self.width - LEFT - self.right)

    def down(self, y: float) -> float:
        """Pixels from the top edge; values outside the axis are drawn at its ends."""
        low, high = self.y
        share = (min(max(y, low), high) - low) / (high - low)
        return self.height - self.bottom - share * (self.height - TOP - self.bottom)


def draw(chart: Chart) -> Html:
    """The chart twice, for wide and for narrow screens (the style sheet shows one); empty without any point."""
    if not any(line.points for line in chart.lines):
        return Html("")
    wide, narrow = _svg(chart, 720, 160, 19), _svg(chart, 350, 106, 12)
    return Html(f'<figure class="wide">{wide}</figure><figure class="narrow">{narrow}</figure>')


def _svg(chart: Chart, width: int, right: int, letters: int) -> str:
    lines = [
        Line(line.name, thin(line.points, MOST_POINTS), line.style, line.marks) for line in chart.lines if line.points
    ]
    frame = _frame(chart, lines, width, right)
    parts = [
        f'<svg viewBox="0 0 {width} {chart.height}" role="img" aria-label="{escape(chart.title)}">',
        f'<text class="axis" x="4" y="13">{escape(chart.y_label)}</text>',
        *_axes(chart, frame, 10 if width > 500 else 5),
    ]
    labels: list[tuple[str, float, str]] = []
    for index, (name, value) in enumerate(chart.levels):
        y = frame.down(value)
        style = f"level level{index % 4}"
        parts.append(f'<path class="{style}" d="M{LEFT} {y:.1f}H{width - right}"/>')
        labels.append((f"{short_name(name)} {decimal(value)}", value, style))
    for line in lines:
        parts += _curve(line, frame)
        if line.name:
            value = line.points[-1][1]
            labels.append((f"{line.name} {decimal(value)}", value, line.style))
    if chart.ring:
        x, y = frame.across(chart.ring[0]), frame.down(chart.ring[1])
        parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="7"/>')
    parts += _labels(labels, frame, letters)
    return "".join([*parts, "</svg>"])


def _frame(chart: Chart, lines: list[Line], width: int, right: int) -> Frame:
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    levels = [value for _, value in chart.levels]
    must_show = levels + [y for line in lines if line.marks for _, y in line.points]
    low, high = min([*ys, *levels]), ceiling(ys, must_show)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    low = 0.0 if chart.from_zero or 0 <= low < room else low - room
    high = high + room if chart.highest is None else max(high, min(high + room, chart.highest))
    x_low = min(0.0, *xs)
    bottom = 52 if chart.seconds else 38
    return Frame(width, chart.height, right, bottom, (x_low, max([*xs, x_low + 1])), (low, high))


def _axes(chart: Chart, frame: Frame, most: int) -> list[str]:
    left, right, base = LEFT, frame.width - frame.right, frame.height - frame.bottom
    y_ticks = ticks(*frame.y, 7 if chart.height > 250 else 4)
    x_ticks = [x for x in ticks(*frame.x, most) if x == int(x)]
    unit_size, unit = time_unit(chart.seconds[-1][1] / 3) if chart.seconds else (1, "")
    parts = []
    for value, text in zip(y_ticks, tick_labels(y_ticks), strict=True):
        y = frame.down(value)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{right}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for value, text in zip(x_ticks, tick_labels(x_ticks), strict=True):
        x = frame.across(value)
        parts.append(f'<path class="axisline" d="M{x:.1f} {base}v4"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 17}" text-anchor="middle">{text}</text>')
        time = interpolate(chart.seconds, value) if value else None
        if time is not None:
            said = f"{time / unit_size:.2g}" if time < 10 * unit_size else f"{time / unit_size:,.0f}"
            parts.append(f'<text class="tick time" x="{x:.1f}" y="{base + 31}" text-anchor="middle">{said}</text>')
    parts.append(f'<path class="axisline" d="M{left} {base}H{right}"/>')
    label = f"step, and below it the time in {UNITS[unit]}" if chart.seconds else "step"
    middle = (left + right) / 2
    parts.append(f'<text class="axis" x="{middle:.1f}" y="{frame.height - 4}" text-anchor="middle">{label}</text>')
    return parts


def _curve(line: Line, frame: Frame) -> list[str]:
    places = [(frame.across(x), frame.down(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline class="{line.style}" points="{path}"/>'] if len(places) > 1 else []
    if len(places) == 1 or (line.marks and len(places) <= MOST_MARKS):
        parts += [f'<circle class="{line.style} mark" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>' for x, y in places]
    return parts


def _labels(labels: list[tuple[str, float, str]], frame: Frame, letters: int) -> list[str]:
    """Names in the right margin, pushed apart, each tied to its line by a stub in the line's own colour and dash."""
    wrapped = [textwrap.wrap(text, letters) or [""] for text, _, _ in labels]
    ends = [frame.down(value) for _, value, _ in labels]
    heights = [LINE_HEIGHT * len(rows) + 4.0 for rows in wrapped]
    centres = spread(ends, heights, TOP - 12, frame.height - frame.bottom + 12)
    x = frame.width - frame.right
    parts = []
    for (_, _, style), rows, end, centre in zip(labels, wrapped, ends, centres, strict=True):
        parts.append(f'<path class="{style} stub" d="M{x} {end:.1f}L{x + 14} {centre:.1f}"/>')
        y = centre - LINE_HEIGHT * (len(rows) - 1) / 2 + 4
        for index, row in enumerate(rows):
            at = y + LINE_HEIGHT * index
            parts.append(f'<text class="label" x="{x + 18}" y="{at:.1f}">{escape(row)}</text>')
    return parts
