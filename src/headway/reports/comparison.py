"""A comparison as plots, and as ``report.html``, one page that contains them."""

import re
from functools import partial
from pathlib import Path
from typing import Any

from headway.io.atomic_write import write_whole
from headway.io.quantities import duration, short_count, size
from headway.reports.plots import legend_beside, line, logarithmic, plotted, round_ticks
from headway.reports.style import page
from headway.reports.tables import table
from headway.reports.wording import Html, escape
from headway.tasks.registry import known
from headway.training.evaluation.metric import VAL_LOSS

WIDE = "figure svg { background: #fff; } main { max-width: 60rem; }"
PLOTS = {
    "quality": "The result of each model; the bar is its 95 % interval.",
    "curves": "The metric on the held-out part (of a text, on the same windows for all), against time and tokens.",
    "speed": "Training tokens per second, and answers per second.",
    "longer": "The loss on the same tokens, in windows longer than in training.",
    "recall": "Recall accuracy of a letter by its distance in tokens; guessing: 1 in 16.",
    "lengths": "Training time per token, by sequence length.",
}


def write_comparison(found: dict[str, Any], folder: Path, guessing: float = 0.0) -> None:
    """Write the plots of a comparison (png and svg) and ``report.html`` into ``folder``.

    ``guessing`` is the recall accuracy by chance.
    Raises InputError if matplotlib is missing.
    """
    rows = [row for row in found["rows"] if "failed" not in row]
    if not rows:
        return
    colours = {row["model"]: line(number) for number, row in enumerate(rows)}
    _quality(found, rows, colours, folder / "quality")
    _curves(found, rows, colours, folder / "curves")
    _speed(found, rows, colours, folder / "speed")
    names = ["quality", "curves", "speed"]
    if any(row["lengths"] for row in rows):
        _lengths(rows, colours, folder / "lengths")
        names.append("lengths")
    for name, draw in (("longer", _longer), ("recall", partial(_recall, guessing=guessing))):
        if any(one.get("loss", one.get("accuracy")) is not None for row in rows for one in row.get(name, [])):
            draw(rows, colours, folder / name)
            names.append(name)
    text = _page(found, rows, names, folder)
    write_whole(folder / "report.html", lambda new: new.write_text(text, encoding="utf-8"))


def _quality(found: dict[str, Any], rows: list[dict[str, Any]], colours: dict[str, Any], place: Path) -> None:
    with plotted(place, height=0.9 + 0.45 * len(rows)) as axes:
        for at, row in enumerate(reversed(rows)):
            look = colours[row["model"]]
            if row["interval"]:
                axes.plot(row["interval"], [at, at], color=look["color"], linewidth=2)
            axes.plot(row["values"], [at] * len(row["values"]), look["marker"], color=look["color"], alpha=0.35)
            axes.plot([row["mean"]], [at], look["marker"], color=look["color"], markersize=8)
        axes.set_yticks(range(len(rows)), [row["model"] for row in reversed(rows)])
        metric = known(found["task"]).metric(found["metric"])
        axes.set_xlabel(f"{metric.name} ({'lower' if metric.lower_is_better else 'higher'} is better)")
        axes.set_ylim(-0.6, len(rows) - 0.4)


def _curves(found: dict[str, Any], rows: list[dict[str, Any]], colours: dict[str, Any], place: Path) -> None:
    metric, task = found["metric"], known(found["task"])
    if not any(one.get(metric) is not None for row in rows for curve in row["curves"] for one in curve):
        metric = VAL_LOSS.key  # it is only measured at the end
    what = f"loss, {task.loss_unit}" if metric == VAL_LOSS.key else task.metric(metric).name
    with plotted(place, columns=2, width=10.5) as (left, right):
        for row in rows:
            for number, curve in enumerate(row["curves"]):
                points = [one for one in curve if one.get(metric) is not None]
                look = {**colours[row["model"]], "alpha": 1.0 if number == 0 else 0.4}
                label = row["model"] if number == 0 else None
                left.plot([one["seconds"] for one in points], [one[metric] for one in points], **look)
                points = [one for one in points if one["tokens"]]
                right.plot([one["tokens"] for one in points], [one[metric] for one in points], **look, label=label)
        left.set_xlabel("training time, seconds")
        right.set_xlabel("tokens read in training")
        logarithmic(right)
        for axes in (left, right):
            axes.set_ylabel(f"{what}, held-out part")
        legend_beside(right)


def _speed(found: dict[str, Any], rows: list[dict[str, Any]], colours: dict[str, Any], place: Path) -> None:
    with plotted(place, columns=2, width=9.0, height=0.9 + 0.45 * len(rows)) as (left, right):
        for axes, key, label in (
            (left, "tokens_per_second", "training tokens per second"),
            (right, "throughput", f"{known(found['task']).answer_unit} per second, batches of 32 texts"),
        ):
            values = [row[key] for row in reversed(rows)]
            bars = axes.barh(
                range(len(rows)), values, color=[colours[row["model"]]["color"] for row in reversed(rows)], height=0.6
            )
            axes.bar_label(bars, [f" {value:,.0f}" for value in values], fontsize=9)
            axes.set_xlim(0, 1.25 * max(values) or 1)
            axes.set_yticks(range(len(rows)), [row["model"] for row in reversed(rows)])
            axes.set_xlabel(label)
            axes.locator_params(axis="x", nbins=5)
            axes.xaxis.set_major_formatter(lambda value, _: short_count(value))
            axes.grid(False, axis="y")


def _lengths(rows: list[dict[str, Any]], colours: dict[str, Any], place: Path) -> None:
    with plotted(place) as axes:
        for row in rows:
            at = [one["length"] for one in row["lengths"]]
            axes.plot(at, [one["microseconds"] for one in row["lengths"]], **colours[row["model"]], label=row["model"])
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        round_ticks(axes.yaxis)
        axes.set_xlabel("sequence length, tokens")
        axes.set_ylabel("training time per token, µs")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        legend_beside(axes)


def _longer(rows: list[dict[str, Any]], colours: dict[str, Any], place: Path) -> None:
    with plotted(place) as axes:
        for row in rows:
            points = [one for one in row.get("longer", []) if one["loss"] is not None]
            if points:
                at = [one["length"] for one in points]
                axes.plot(at, [one["loss"] for one in points], **colours[row["model"]], label=row["model"])
        lengths = sorted({one["length"] for row in rows for one in row.get("longer", [])})
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.set_xlabel("window length, tokens; the shortest is the training length")
        axes.set_ylabel("loss, nats per token")
        legend_beside(axes)


def _recall(rows: list[dict[str, Any]], colours: dict[str, Any], place: Path, guessing: float) -> None:
    with plotted(place) as axes:
        for number, row in enumerate(rows):
            points = row.get("recall", [])
            at, wide = [one["distance"] for one in points], len(rows) - number  # equal lines lie on top of each other
            look = {**colours[row["model"]], "linewidth": 1 + 1.5 * wide, "markersize": 5 + 3 * wide}
            axes.plot(at, [one["accuracy"] for one in points], **look, label=row["model"])
        axes.axhline(guessing, color="#595959", linewidth=0.8, linestyle=":")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylim(0, 1.03)
        axes.set_xlabel("distance, tokens")
        axes.set_ylabel("recall accuracy")
        legend_beside(axes)


def _page(found: dict[str, Any], rows: list[dict[str, Any]], names: list[str], folder: Path) -> str:
    metric = known(found["task"]).metric(found["metric"]).name
    heads = ["model", metric, "interval", "parameters", "optimizer", "precision", "trained", "tokens/s", "latency"]
    heads += ["answers/s", "memory"]
    cells = []
    for row in found["rows"]:
        if "failed" in row:
            cells.append([row["model"], row["failed"], *["–"] * (len(heads) - 2)])
            continue
        between = "–" if row["interval"] is None else "{:.4g} to {:.4g}".format(*row["interval"])
        cells.append(
            [
                *(row["model"], f"{row['mean']:.4g}", between, f"{row['parameters']:,}", row["optimizer"] or "–"),
                *(row["precision"], duration(row["seconds"])),
                *(f"{row['tokens_per_second']:,.0f}", f"{row['latency_ms']:.2f} ms", f"{row['throughput']:,.0f}"),
                "–" if row["memory_mb"] is None else size(1e6 * row["memory_mb"]),
            ]
        )
    caption = f"{metric} on {found['measured_on']}; mean over {found['seeds']} seed(s)."
    figures = ""
    for name in names:
        svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
        figures += f"<figure>{svg}<figcaption>{escape(PLOTS[name])}</figcaption></figure>"
    said = "".join(f"<p>{escape(text)}</p>" for text in found["advice"])
    budget = f"matched by {found['match']}; {found['budget']} for each model, {found['trials']} trial(s)"
    body = (
        f"<h1>{escape(', '.join(row['model'] for row in rows))}</h1>\n"
        f'<p class="soft">{escape(budget)}</p>\n{said}\n{table(heads, cells, caption=caption)}\n{figures}'
    )
    return page(Html("Comparison"), body, "compare.json", more_css=WIDE)
