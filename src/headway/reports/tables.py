"""Tables of a report: plain ones, lists of facts, the classes and the confusion matrix."""

from collections.abc import Iterable, Sequence
from typing import Any

from headway.reports.verdict import HEADLINES
from headway.reports.wording import (
    LOWER_IS_BETTER,
    METRICS,
    Html,
    count,
    decimal,
    duration,
    escape,
    listing,
    mapping,
    metric_name,
    number,
)

MOST_CLASSES = 60
"""Rows of the table of classes."""
LARGEST_MATRIX = 16
"""Classes up to which the confusion matrix is drawn whole."""
MOST_MISTAKES = 25
SHARES_UP_TO = 8
"""Classes up to which a cell also says its share of the row."""


def table(heads: Sequence[object], rows: Iterable[Sequence[object]], numbers_from: int = 1, caption: str = "") -> Html:
    """A table; the first cell of a row is its head; columns from ``numbers_from`` on are set as numbers."""

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
    """Names and values as a definition list; empty without any."""
    rows = "".join(f'<dt>{escape(name)}</dt><dd dir="auto">{escape(value)}</dd>' for name, value in pairs)
    return Html(f"<dl>{rows}</dl>" if rows else "")


def comparison(metrics: dict[str, Any], baselines: list[dict[str, Any]]) -> Html:
    """The model among its baselines, best first, the best value of a column in bold; empty without baselines."""
    rows = [{**metrics, "name": None}, *baselines]
    keys = [key for key in METRICS if any(number(line.get(key)) is not None for line in baselines)]
    if not keys:
        return Html("")
    main = next((key for key in HEADLINES if key in keys), keys[0])
    sign = 1 if main in LOWER_IS_BETTER else -1
    rows.sort(key=lambda line: sign * value if (value := number(line.get(main))) is not None else float("inf"))
    best = {key: _best([line.get(key) for line in rows], key) for key in keys}

    def cell(line: dict[str, Any], key: str) -> Html:
        text = decimal(line.get(key))
        return Html(f"<b>{text}</b>" if text == best[key] and text != "–" else text)

    timed = any(number(line.get("seconds")) is not None for line in baselines)
    heads = ["model", *(metric_name(key) for key in keys), *(["time"] if timed else [])]
    body = []
    for line in rows:
        name = Html("<b>Transformer (this run)</b>") if line["name"] is None else line["name"]
        seconds = number(line.get("seconds"))
        time = ["–" if seconds is None else duration(seconds)] if timed else []
        body.append([name, *(cell(line, key) for key in keys), *time])
    return table(heads, body)


def per_class(classes: object) -> Html:
    """Precision, recall, F1 and support of each class; of many classes those with the lowest F1."""
    found = [(name, mapping(line)) for name, line in mapping(classes).items()]
    if not found:
        return Html("")
    note = ""
    if len(found) > MOST_CLASSES:
        found.sort(key=lambda pair: number(pair[1].get("f1")) or 0.0)
        note = f"The {MOST_CLASSES} of {len(found):,} classes with the lowest F1."
        found = found[:MOST_CLASSES]
    rows = [
        [
            escape(name, 60),
            *(decimal(line.get(key)) for key in ("precision", "recall", "f1")),
            count(line.get("support")),
        ]
        for name, line in found
    ]
    return table(["class", "precision", "recall", "F1", "support"], rows, caption=note)


def confusion(matrix: object, labels: object) -> Html:
    """The confusion matrix, or, of many classes, the most frequent confusions; empty where it is not square."""
    counts = [[int(number(cell) or 0) for cell in listing(row)] for row in listing(matrix)]
    size = len(counts)
    if not size or any(len(row) != size for row in counts):
        return Html("")
    given = listing(labels)
    names = [given[index] if index < len(given) else f"class {index}" for index in range(size)]
    return _matrix(counts, names) if size <= LARGEST_MATRIX else _mistakes(counts, names)


def _matrix(counts: list[list[int]], names: list[object]) -> Html:
    heads = "".join(f'<th scope="col" dir="auto">{escape(name, 40)}</th>' for name in names)
    rows = []
    for index, row in enumerate(counts):
        total = sum(row) or 1
        cells = []
        for other, cell in enumerate(row):
            share = cell / total
            small = f"<small>{share:.0%}</small>" if len(counts) <= SHARES_UP_TO else ""
            right = " right" if index == other else ""
            cells.append(f'<td class="n{right}" style="--share:{share:.3f}">{cell:,}{small}</td>')
        rows.append(f'<tr><th scope="row" dir="auto">{escape(names[index], 40)}</th>{"".join(cells)}</tr>')
    return Html(
        '<div class="scroll"><table class="confusion"><caption>Rows: the true class. Columns: the predicted class. '
        "Shade: share of the row. Outlined: right.</caption>"
        f'<thead><tr><th scope="col">true \\ predicted</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>"
    )


def _mistakes(counts: list[list[int]], names: list[object]) -> Html:
    wrong = [
        (cell, index, other)
        for index, row in enumerate(counts)
        for other, cell in enumerate(row)
        if cell and index != other
    ]
    wrong.sort(key=lambda mistake: (-mistake[0], mistake[1], mistake[2]))
    rows = [
        [escape(names[index], 60), escape(names[other], 60), f"{cell:,}", f"{cell / sum(counts[index]):.0%}"]
        for cell, index, other in wrong[:MOST_MISTAKES]
    ]
    caption = f"The most frequent confusions among {len(counts):,} classes."
    return table(["true", "predicted", "times", "share of the true class"], rows, numbers_from=2, caption=caption)


def _best(values: list[object], key: str) -> str:
    known = [found for value in values if (found := number(value)) is not None]
    if not known:
        return "–"
    return decimal(min(known) if key in LOWER_IS_BETTER else max(known))
