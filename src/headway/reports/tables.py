"""Tables of a report, as data: the model among its baselines, the classes, the confusions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from headway.errors import field
from headway.io.quantities import duration, metric
from headway.reports.page import visible
from headway.reports.wording import count, decimal, listing, mapping, number, short, show
from headway.tasks.registry import known
from headway.tasks.spec import TaskSpec

BOLD = Markup("<b>{}</b>")
MOST_CLASSES = 60
"""Rows of the table of classes."""
LARGEST_MATRIX = 14
"""Maximum classes for a confusion matrix as a table."""
LARGEST_MAP = 100
"""Maximum classes for a confusion matrix as an image."""
MOST_MISTAKES = 25
SHARES_UP_TO = 8
"""Maximum classes for cells that also show their percentage of the row."""


@dataclass(frozen=True)
class Table:
    """A table of a page; the first cell of a row is its head; columns from ``numbers_from`` on are numbers."""

    heads: Sequence[object]
    rows: Sequence[Sequence[object]]
    numbers_from: int = 1
    caption: str = ""


def comparison(task: TaskSpec, called: str, metrics: dict[str, Any], baselines: list[dict[str, Any]]) -> Table | None:
    """The model among its baselines, best first, the best value of a column in bold; None without baselines."""
    rows = [{**metrics, "name": None}, *baselines]
    columns = [one for one in task.metrics if any(number(line.get(one.key)) is not None for line in baselines)]
    if not columns:
        return None
    main = next((one for one in task.headline if one in columns), columns[0])

    def order(line: dict[str, Any]) -> float:
        value = number(line.get(main.key))
        return math.inf if value is None else -main.better(value, 0.0)

    rows.sort(key=order)
    reached = {one.key: [value for line in rows if (value := number(line.get(one.key))) is not None] for one in columns}
    best = {one.key: (min if one.lower_is_better else max)(reached[one.key], default=None) for one in columns}

    def cell(line: dict[str, Any], key: str) -> str:
        text = decimal(line.get(key))
        return BOLD.format(text) if text == decimal(best[key]) and text != "–" else text

    timed = any(number(line.get("seconds")) is not None for line in baselines)
    heads = ["model", *(one.name for one in columns), *(["time"] if timed else [])]
    body = []
    for line in rows:
        name = BOLD.format(f"{called} (this run)") if line["name"] is None else line["name"]
        seconds = number(line.get("seconds"))
        time = ["–" if seconds is None else duration(seconds)] if timed else []
        body.append([name, *(cell(line, one.key) for one in columns), *time])
    return Table(heads, body)


def label_columns(metrics: dict[str, Any], baselines: list[dict[str, Any]]) -> list[tuple[str, str, list[float]]]:
    """Of several label columns each with its metric in words, and what the model and each baseline reach there."""
    columns = []
    for name, line in mapping(metrics.get("columns")).items():
        headline = known(str(mapping(line).get("task"))).headline[0]
        of_baselines = (mapping(mapping(baseline.get("columns")).get(name)) for baseline in baselines)
        values = [number(reached.get(headline.key)) for reached in (mapping(line), *of_baselines)]
        columns.append((name, headline.name, [math.nan if value is None else value for value in values]))
    return columns


def columns_in_words(metrics: dict[str, Any], baselines: list[dict[str, Any]]) -> list[str]:
    """A line for each of several label columns."""
    measured, lines = [line for line in baselines if "columns" in line], []
    for name, what, (own, *others) in label_columns(metrics, measured):
        rivals = ", ".join(f"{line['name']} {metric(value)}" for line, value in zip(measured, others, strict=True))
        lines.append(f"  {field(name)}: {what} {metric(own)}{f' ({rivals})' if rivals else ''}")
    return lines


def columns(called: str, metrics: dict[str, Any], baselines: list[dict[str, Any]]) -> Table | None:
    """A line for each of several label columns; None for another model."""
    measured = [line for line in baselines if "columns" in line]
    lines = label_columns(metrics, measured)
    heads = ["column", "metric", f"{called} (this run)", *(line["name"] for line in measured)]
    rows = [[visible(name, 60), metric, *map(decimal, values)] for name, metric, values in lines]
    return Table(heads, rows, numbers_from=2) if lines else None


def per_class(classes: object, sizes: dict[str, Any], rows: float | None = None) -> Table | None:
    """Size, precision, recall, F1 and held-out rows of each class; with many classes those with the lowest F1.

    ``rows`` is how many there are, where a row may have several classes.
    """
    lines = [(name, mapping(line)) for name, line in mapping(classes).items()]
    if not lines:
        return None
    note = ""
    if len(lines) > MOST_CLASSES:
        lines.sort(key=lambda pair: number(pair[1].get("f1")) or 0.0)
        note = f"The {MOST_CLASSES} of {len(lines):,} classes with the lowest F1."
        lines = lines[:MOST_CLASSES]
    total = rows or sum(number(size) or 0.0 for size in sizes.values())
    body = []
    for name, line in lines:
        size = number(sizes.get(name))
        shown = [] if not total else ["–" if size is None else f"{size:,.0f} ({size / total:.1%})"]
        scores = [decimal(line.get(key)) for key in ("precision", "recall", "f1")]
        body.append([visible(name, 60), *shown, *scores, count(line.get("support"))])
    heads = ["class", *(["all rows"] if total else []), "precision", "recall", "F1", "held out"]
    return Table(heads, body, caption=note)


def confusion(matrix: object, labels: object) -> dict[str, Any]:
    """The confusion matrix: rows of counts and shares for few classes; an image and the mistakes for more.

    Empty if it is not square.
    """
    counts = [[int(number(cell) or 0) for cell in listing(row)] for row in listing(matrix)]
    size = len(counts)
    if not size or any(len(row) != size for row in counts):
        return {}
    given = listing(labels)
    names = [show(name) for name in given[:size]]
    names += [f"class {index}" for index in range(len(names), size)]
    if size > LARGEST_MATRIX:
        picture = _map(counts, names) if size <= LARGEST_MAP else None
        return {"matrix": None, "map": picture, "mistakes": _mistakes(counts, names)}
    rows = [[(cell, cell / (sum(row) or 1)) for cell in row] for row in counts]
    shown = [visible(name, 40) for name in names]
    matrix = {"names": shown, "rows": rows, "many": size > SHARES_UP_TO}
    return {"matrix": matrix, "map": None, "mistakes": None}


def _map(counts: list[list[int]], names: list[str]) -> Markup:
    """An image: a row per true class and a column per predicted class; darker cells are a larger part of the row."""
    left, high = 190, 12
    wide = min(24.0, (720 - left) / len(counts))
    width, height = left + wide * len(counts), 18 + high * len(counts)
    parts = [f'<svg class="map" viewBox="0 0 {width:.0f} {height}" role="img" aria-label="The confusion matrix">']
    for index in range(0, len(counts), 5):
        x = left + wide * (index + 0.5)
        parts.append(f'<text x="{x:.1f}" y="11" text-anchor="middle">{index + 1}</text>')
    shades: dict[tuple[bool, int], list[str]] = {}
    for index, row in enumerate(counts):
        name, total = f"{short(names[index], 26)} {index + 1}", sum(row) or 1
        parts.append(f'<text x="{left - 5}" y="{18 + high * index + 9.5:.1f}" text-anchor="end">{visible(name)}</text>')
        for other, cell in enumerate(row):
            if cell:
                shades.setdefault((index == other, math.ceil(8 * cell / total)), []).append(f"M{other} {index}h1v1h-1z")
    parts.append(f'<g transform="translate({left} 18) scale({wide:.3f} {high})">')
    for (right, shade), cells in sorted(shades.items()):
        kind = ' class="hit"' if right else ""
        parts.append(f'<path{kind} fill-opacity="{max(0.14, shade / 8):.2f}" d="{"".join(cells)}"/>')
    frame = f'x="{left}" y="18" width="{wide * len(counts):.1f}" height="{height - 18}"'
    parts.append(f'</g><rect class="frame" {frame}/></svg>')
    return Markup("".join(parts))


def _mistakes(counts: list[list[int]], names: list[str]) -> Table:
    wrong = [
        (cell, index, other)
        for index, row in enumerate(counts)
        for other, cell in enumerate(row)
        if cell and index != other
    ]
    wrong.sort(key=lambda mistake: (-mistake[0], mistake[1], mistake[2]))
    shown = [visible(name, 60) for name in names]
    rows = [
        [shown[index], shown[other], f"{cell:,}", f"{cell / sum(counts[index]):.0%}"]
        for cell, index, other in wrong[:MOST_MISTAKES]
    ]
    caption = f"The most frequent confusions among {len(counts):,} classes."
    return Table(["true", "predicted", "times", "% of the true class"], rows, numbers_from=2, caption=caption)
