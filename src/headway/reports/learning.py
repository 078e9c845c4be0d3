"""The curves of a run: loss, accuracy and learning rate against steps, with notes."""

import itertools
import textwrap
from dataclasses import dataclass, field

from headway.io.quantities import time_unit
from headway.reports.axes import MOST_POINTS, ceiling, interpolate, spread, thin, tick_labels, ticks
from headway.reports.record import Point, Record, not_numbers, series
from headway.reports.wording import Html, decimal, escape, mapping, number, short_name
from headway.tasks.registry import known
from headway.training.monitor.health import memorised

MOST_MARKS = 40
LINE_HEIGHT = 14
UNITS = {"s": "seconds", "min": "minutes", "h": "hours"}
TOP, LEFT = 26, 52
RISE = 1.02
"""Ratio of the last validation loss to the best from which the page reports that it rose."""


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
            label = f"{time / unit_size:.2g}" if time < 10 * unit_size else f"{time / unit_size:,.0f}"
            parts.append(f'<text class="tick time" x="{x:.1f}" y="{base + 31}" text-anchor="middle">{label}</text>')
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


def learning(record: Record) -> Html:
    """The section of the learning curves; empty before the first logged step, a sentence for a run without steps."""
    if not record.steps and (record.finished or record.info.get("steps") == 0) and len(record.evaluations) <= 1:
        if not record.evaluations and not record.metrics:
            return Html("")
        tuned = mapping(record.info.get("plan")).get("contrastive")
        how = "tuned on pairs of rows, and its classifier fitted" if tuned else "fitted in closed form"
        said = f"This model was {how}, without training steps, so there are no curves."
        return Html(f'<section><h2>How it learned</h2><p class="soft">{said}</p></section>')
    charts = [
        _titled("Loss", draw(_loss(record)), _notes(record)),
        _titled("Accuracy on the validation data", draw(_accuracy(record)), []),
        _titled("Learning rate", draw(_learning_rate(record)), []),
    ]
    body = "".join(charts)
    return Html(f"<section><h2>How it learned</h2>{body}</section>" if body else "")


def times(record: Record) -> list[Point]:
    """Seconds at each step, if they never decrease (a resumed run may restart from zero); otherwise nothing."""
    found = series(record.steps, "seconds")
    rising = all(before[1] <= after[1] for before, after in itertools.pairwise(found))
    return found if rising and len(found) > 1 else []


def _loss(record: Record) -> Chart:
    unit = known(record.task).loss_unit or "nats"
    training = Line("training", series(record.steps, "loss"), "training")
    validation = Line("validation", series(record.evaluations, "val_loss"), "validation", marks=True)
    return Chart(
        title="Training and validation loss against steps",
        y_label=f"loss ({unit}){_trained_with(record)}",
        lines=[training, validation],
        levels=_levels(record, "val_loss"),
        seconds=times(record),
        ring=_kept(record, "val_loss"),
    )


def _trained_with(record: Record) -> str:
    """What the training loss has and the validation loss has not, in a phrase."""
    plan = mapping(record.info.get("plan"))
    dropped = mapping(plan.get("model")).get("dropout"), plan.get("token_dropout"), plan.get("bpe_dropout")
    parts = ["dropout"] if any(map(number, dropped)) else []
    if plan.get("label_smoothing") and record.evaluations and not series(record.evaluations, "train_loss"):
        parts.append("smoothing")  # as earlier versions logged it
    return f", in training with {' and '.join(parts)}" if parts else ""


def _accuracy(record: Record) -> Chart:
    return Chart(
        title="Accuracy on the validation data against steps",
        y_label="accuracy (fraction of examples)",
        lines=[Line(record.called, series(record.evaluations, "accuracy"), "validation", marks=True)],
        levels=_levels(record, "accuracy"),
        seconds=times(record),
        ring=_kept(record, "accuracy"),
        highest=1.0,
        height=280,
    )


def _learning_rate(record: Record) -> Chart:
    return Chart(
        title="Learning rate against steps",
        y_label="learning rate",
        lines=[Line("", series(record.steps, "learning_rate"), "third")],
        from_zero=True,
        height=170,
    )


def _levels(record: Record, key: str) -> list[tuple[str, float]]:
    found = ((str(line.get("name", "baseline")), number(line.get(key))) for line in record.baselines)
    return [(name, value) for name, value in found if value is not None]


def _kept(record: Record, key: str) -> Point | None:
    step, value = number(mapping(record.best).get("step")), number(record.best.get(key))
    return None if step is None or value is None else (step, value)


def _notes(record: Record) -> list[str]:
    notes = []
    if record.best:
        notes.append(f"The ring marks step {record.best['step']:,}, whose weights were kept.")
    validation = series(record.evaluations, "val_loss")
    if len(validation) > 1:
        (step, lowest), (end, last) = min(validation, key=lambda point: point[1]), validation[-1]
        trained = dict(series(record.evaluations, "train_loss"))
        if last > RISE * lowest > 0:
            rose = f"Validation loss rose from {decimal(lowest)} at step {step:,.0f} to {decimal(last)} at the end"
            if {step, end} <= set(trained) and memorised(last, trained[end], lowest, trained[step]):
                rose += ", and training loss fell: the model has memorised the training data. More data or a smaller "
                rose += "model may do better"
            notes.append(f"{rose}.")
    logged = len(series(record.steps, "loss"))
    if logged > MOST_POINTS:
        notes.append(f"Each point of the training curve is a mean of about {logged / MOST_POINTS:.0f} logged steps.")
    if broken := not_numbers(record.steps, "loss"):
        notes.append(f"At {len(broken):,} logged steps the loss was not a number, first at step {broken[0]['step']:,}.")
    return notes


def _titled(title: str, drawn: Html, notes: list[str]) -> Html:
    if not drawn:
        return Html(f'<p class="soft">{escape(" ".join(notes))}</p>' if notes else "")
    said = f'<p class="soft">{escape(" ".join(notes))}</p>' if notes else ""
    return Html(f"<h3>{escape(title)}</h3>{drawn}{said}")
