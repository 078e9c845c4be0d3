"""Tables of a report: plain ones, lists of facts, the classes and the confusion matrix."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from headway.io.quantities import duration
from headway.reports.wording import (
    Html,
    count,
    decimal,
    escape,
    listing,
    mapping,
    number,
    short,
    show,
    visible,
)
from headway.tasks.spec import TaskSpec
from headway.training.evaluation.metric import Metric

MOST_CLASSES = 60
"""Rows of the table of classes."""
LARGEST_MATRIX = 14
"""Maximum classes for a confusion matrix as a table."""
LARGEST_MAP = 100
"""Maximum classes for a confusion matrix as an image."""
LONGEST_TEXT = 300
"""Characters shown of a text."""
MOST_MISTAKES = 25
SHARES_UP_TO = 8
"""Maximum classes for cells that also show their percentage of the row."""


def table(heads: Sequence[object], rows: Iterable[Sequence[object]], numbers_from: int = 1, caption: str = "") -> Html:
    """A table; the first cell of a row is its head; columns from ``numbers_from`` on are aligned as numbers."""

    def cells(values: Sequence[object], tag: str) -> str:
        parts = []
        for index, value in enumerate(values):
            name = "th" if index == 0 else tag
            scope = f' scope="{"col" if tag == "th" else "row"}"' if name == "th" else ""
            align = ' class="n"' if index >= numbers_from else ""
            parts.append(f'<{name}{scope}{align} dir="auto">{escape(value)}</{name}>')
        return "<tr>" + "".join(parts) + "</tr>"

    body = "".join(cells(row, "td") for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return Html(
        f'<div class="scroll"><table>{title}<thead>{cells(heads, "th")}</thead><tbody>{body}</tbody></table></div>'
    )


def facts(pairs: Iterable[tuple[object, object]]) -> Html:
    """Names and values as a definition list; empty if there are none."""
    rows = "".join(f'<dt>{escape(name)}</dt><dd dir="auto">{escape(value)}</dd>' for name, value in pairs)
    return Html(f"<dl>{rows}</dl>" if rows else "")


def comparison(task: TaskSpec, called: str, metrics: dict[str, Any], baselines: list[dict[str, Any]]) -> Html:
    """The model among its baselines, best first, the best value of a column in bold; empty without baselines."""
    rows = [{**metrics, "name": None}, *baselines]
    columns = [one for one in task.metrics if any(number(line.get(one.key)) is not None for line in baselines)]
    if not columns:
        return Html("")
    main = next((one for one in task.headline if one in columns), columns[0])

    def order(line: dict[str, Any]) -> float:
        value = number(line.get(main.key))
        return math.inf if value is None else -main.better(value, 0.0)

    rows.sort(key=order)
    best = {one.key: _best([line.get(one.key) for line in rows], one) for one in columns}

    def cell(line: dict[str, Any], key: str) -> Html:
        text = decimal(line.get(key))
        return Html(f"<b>{text}</b>" if text == best[key] and text != "–" else text)

    timed = any(number(line.get("seconds")) is not None for line in baselines)
    heads = ["model", *(one.name for one in columns), *(["time"] if timed else [])]
    body = []
    for line in rows:
        name = Html(f"<b>{escape(called)} (this run)</b>") if line["name"] is None else line["name"]
        seconds = number(line.get("seconds"))
        time = ["–" if seconds is None else duration(seconds)] if timed else []
        body.append([name, *(cell(line, one.key) for one in columns), *time])
    return table(heads, body)


def per_class(classes: object, sizes: dict[str, Any], rows: float | None = None) -> Html:
    """Size, precision, recall, F1 and held-out rows of each class; with many classes those with the lowest F1.

    ``rows`` is how many there are, where a row may have several classes.
    """
    found = [(name, mapping(line)) for name, line in mapping(classes).items()]
    if not found:
        return Html("")
    note = ""
    if len(found) > MOST_CLASSES:
        found.sort(key=lambda pair: number(pair[1].get("f1")) or 0.0)
        note = f"The {MOST_CLASSES} of {len(found):,} classes with the lowest F1."
        found = found[:MOST_CLASSES]
    total = rows or sum(number(size) or 0.0 for size in sizes.values())
    body = []
    for name, line in found:
        size = number(sizes.get(name))
        shown = [] if not total else ["–" if size is None else f"{size:,.0f} ({size / total:.1%})"]
        scores = [decimal(line.get(key)) for key in ("precision", "recall", "f1")]
        body.append([visible(name, 60), *shown, *scores, count(line.get("support"))])
    heads = ["class", *(["all rows"] if total else []), "precision", "recall", "F1", "held out"]
    return table(heads, body, caption=note)


def rows_of_text(rows: object) -> Html:
    """Texts with their label and the two most likely ones; empty if there are none."""
    found = [mapping(row) for row in listing(rows)]
    if not found:
        return Html("")
    body = "".join(
        f'<tr><td dir="auto">{visible(show(row.get("text")), LONGEST_TEXT)}</td>'
        f'<td dir="auto">{visible(show(row.get("label")), 60)}</td><td dir="auto">{_answer(row, "predicted", "score")}'
        f"<br>{_answer(row, 'second', 'second_score')}</td></tr>"
        for row in found
    )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("text", "label", "answers"))
    return Html(
        f'<div class="scroll"><table class="texts"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _answer(row: dict[str, Any], label: str, score: str) -> Html:
    return Html(f"{visible(show(row.get(label)), 60)} {decimal(row.get(score))}")


def confusion(matrix: object, labels: object) -> Html:
    """The confusion matrix: a table for few classes; an image and the most frequent confusions for more.

    Empty if it is not square.
    """
    counts = [[int(number(cell) or 0) for cell in listing(row)] for row in listing(matrix)]
    size = len(counts)
    if not size or any(len(row) != size for row in counts):
        return Html("")
    given = listing(labels)
    names = [given[index] if index < len(given) else f"class {index}" for index in range(size)]
    if size <= LARGEST_MATRIX:
        return _matrix(counts, names)
    return Html((_map(counts, names) if size <= LARGEST_MAP else "") + _mistakes(counts, names))


def _matrix(counts: list[list[int]], names: list[object]) -> Html:
    """A table; with more than SHARES_UP_TO classes the columns are numbered like the rows."""
    many = len(counts) > SHARES_UP_TO
    shown = [visible(show(name), 40) for name in names]
    heads = "".join(
        f'<th scope="col" class="n" dir="auto">{index if many else name}</th>' for index, name in enumerate(shown, 1)
    )
    rows = []
    for index, row in enumerate(counts):
        total = sum(row) or 1
        cells = []
        for other, cell in enumerate(row):
            share = cell / total
            small = "" if many else f"<small>{share:.0%}</small>"
            right = " right" if index == other else ""
            cells.append(f'<td class="n{right}" style="--share:{share:.3f}">{cell:,}{small}</td>')
        name = f"{index + 1} {shown[index]}" if many else shown[index]
        rows.append(f'<tr><th scope="row" dir="auto">{name}</th>{"".join(cells)}</tr>')
    return Html(
        f'<div class="scroll"><table class="confusion{" many" if many else ""}"><caption>Rows: the true class. '
        "Columns: the predicted class. Shade: fraction of the row. Outlined: correct.</caption>"
        f'<thead><tr><th scope="col">true \\ predicted</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>"
    )


def _map(counts: list[list[int]], names: list[object]) -> Html:
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
        name, total = f"{short(show(names[index]), 26)} {index + 1}", sum(row) or 1
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
    return Html(
        '<p class="soft">Rows: the true class. Columns: the predicted class, by the numbers of the rows. Shade: '
        "fraction of the row; correct answers are on the diagonal, in another colour.</p>"
        f'<div class="scroll">{"".join(parts)}</div>'
    )


def _mistakes(counts: list[list[int]], names: list[object]) -> Html:
    wrong = [
        (cell, index, other)
        for index, row in enumerate(counts)
        for other, cell in enumerate(row)
        if cell and index != other
    ]
    wrong.sort(key=lambda mistake: (-mistake[0], mistake[1], mistake[2]))
    shown = [visible(show(name), 60) for name in names]
    rows = [
        [shown[index], shown[other], f"{cell:,}", f"{cell / sum(counts[index]):.0%}"]
        for cell, index, other in wrong[:MOST_MISTAKES]
    ]
    caption = f"The most frequent confusions among {len(counts):,} classes."
    return table(["true", "predicted", "times", "% of the true class"], rows, numbers_from=2, caption=caption)


def _best(values: list[object], metric: Metric) -> str:
    known = [found for value in values if (found := number(value)) is not None]
    if not known:
        return "–"
    return decimal(min(known) if metric.lower_is_better else max(known))
