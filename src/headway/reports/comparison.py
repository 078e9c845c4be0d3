"""A comparison as plots, and as ``report.html``, one page that contains them."""

import re
from pathlib import Path
from typing import Any

from markupsafe import Markup

from headway.io.atomic_write import write_whole
from headway.io.quantities import duration, short_count, size
from headway.reports.page import part, render
from headway.reports.plots import legend_beside, line, logarithmic, plotted, round_ticks
from headway.reports.tables import Table
from headway.tasks.registry import known
from headway.training.evaluation.metric import VAL_LOSS

WIDE = "figure svg { background: #fff; } main { max-width: 60rem; }"
PLOTS = {
    "quality": "The result of each model; the bar is its 95 % interval.",
    "curves": "The metric on the held-out part (of a text, on the same windows for all), against time and tokens.",
    "speed": "Training tokens per second, and answers per second.",
    "lengths": "Training time per token, by sequence length.",
    "longer": "The loss on the same tokens, in windows longer than in training.",
    "recall": "Recall accuracy of a letter by its distance in tokens; guessing: 1 in 16.",
}
BY_LENGTH = {
    "lengths": ("length", "microseconds", "sequence length, tokens", "training time per token, µs"),
    "longer": ("length", "loss", "window length, tokens; the shortest is the training length", "loss, nats per token"),
    "recall": ("distance", "accuracy", "distance, tokens", "recall accuracy"),
}
"""What is drawn against tokens: the keys of both in a row's points, and the labels of the axes."""
Rows = list[dict[str, Any]]


def write_comparison(result: dict[str, Any], folder: Path, guessing: float = 0.0) -> None:
    """Write the plots of a comparison (png and svg) and ``report.html`` into ``folder``.

    ``guessing`` is the recall accuracy by chance.
    Raises InputError if matplotlib is missing.
    """
    rows = [row for row in result["rows"] if "failed" not in row]
    if not rows:
        return
    colours = {row["model"]: line(number) for number, row in enumerate(rows)}
    _quality(result, rows, colours, folder / "quality")
    _curves(result, rows, colours, folder / "curves")
    _speed(result, rows, colours, folder / "speed")
    names = ["quality", "curves", "speed"]
    for name, (_, y, *_) in BY_LENGTH.items():
        if any(one[y] is not None for row in rows for one in row.get(name, [])):
            _by_length(name, rows, colours, folder / name, guessing)
            names.append(name)
    text = _page(result, rows, names, folder)
    write_whole(folder / "report.html", lambda new: new.write_text(text, encoding="utf-8"))


def _table(result: dict[str, Any]) -> Table:
    """The results of all models."""
    metric = known(result["task"]).metric(result["metric"]).name
    heads = ["model", metric, "interval", "parameters", "optimizer", "precision", "trained", "tokens/s", "latency"]
    heads += ["answers/s", "memory"]
    cells = []
    for row in result["rows"]:
        if "failed" in row:
            cells.append([row["model"], row["failed"], *["–"] * (len(heads) - 2)])
            continue
        cells.append(
            [
                *(row["model"], f"{row['mean']:.4g}"),
                "–" if row["interval"] is None else "{:.4g} to {:.4g}".format(*row["interval"]),
                *(f"{row['parameters']:,}", row["optimizer"] or "–", row["precision"], duration(row["seconds"])),
                *(f"{row['tokens_per_second']:,.0f}", f"{row['latency_ms']:.2f} ms", f"{row['throughput']:,.0f}"),
                "–" if row["memory_mb"] is None else size(1e6 * row["memory_mb"]),
            ]
        )
    return Table(heads, cells, caption=f"{metric} on {result['measured_on']}; mean over {result['seeds']} seed(s).")


def _page(result: dict[str, Any], rows: Rows, names: list[str], folder: Path) -> str:
    figures = []
    for name in names:
        svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
        figures.append((Markup(svg), PLOTS[name]))
    return render(
        "comparison.html",
        title="Comparison",
        style=part("report.css") + WIDE,
        models=", ".join(row["model"] for row in rows),
        budget=f"matched by {result['match']}; {result['budget']} for each model, {result['trials']} trial(s)",
        advice=result["advice"],
        rows=_table(result),
        figures=figures,
    )


def _quality(result: dict[str, Any], rows: Rows, colours: dict[str, Any], place: Path) -> None:
    metric = known(result["task"]).metric(result["metric"])
    with plotted(place, height=0.9 + 0.45 * len(rows)) as (axes,):
        for at, row in enumerate(reversed(rows)):
            look = colours[row["model"]]
            if row["interval"]:
                axes.plot(row["interval"], [at, at], color=look["color"], linewidth=2)
            axes.plot(row["values"], [at] * len(row["values"]), look["marker"], color=look["color"], alpha=0.35)
            axes.plot([row["mean"]], [at], look["marker"], color=look["color"], markersize=8)
        axes.set_yticks(range(len(rows)), [row["model"] for row in reversed(rows)])
        better = "lower" if metric.lower_is_better else "higher"
        axes.set(xlabel=f"{metric.name} ({better} is better)", ylim=(-0.6, len(rows) - 0.4))


def _curves(result: dict[str, Any], rows: Rows, colours: dict[str, Any], place: Path) -> None:
    metric, task = result["metric"], known(result["task"])
    if not any(one.get(metric) is not None for row in rows for curve in row["curves"] for one in curve):
        metric = VAL_LOSS.key  # it is only measured at the end
    what = f"loss, {task.loss_unit}" if metric == VAL_LOSS.key else task.metric(metric).name
    with plotted(place, columns=2, width=10.5) as both:
        for axes, key in zip(both, ("seconds", "tokens"), strict=True):
            for row in rows:
                for number, curve in enumerate(row["curves"]):
                    points = [one for one in curve if one.get(metric) is not None]
                    points = [one for one in points if one[key] or key == "seconds"]
                    look = {**colours[row["model"]], "alpha": 1.0 if number == 0 else 0.4}
                    name = row["model"] if number == 0 else None
                    axes.plot([one[key] for one in points], [one[metric] for one in points], **look, label=name)
            axes.set_ylabel(f"{what}, held-out part")
        both[0].set_xlabel("training time, seconds")
        both[1].set_xlabel("tokens read in training")
        logarithmic(both[1])
        legend_beside(both[1])


def _speed(result: dict[str, Any], rows: Rows, colours: dict[str, Any], place: Path) -> None:
    rows = rows[::-1]
    answers = f"{known(result['task']).answer_unit} per second, batches of 32 texts"
    kinds = (("tokens_per_second", "training tokens per second"), ("throughput", answers))
    with plotted(place, columns=2, width=9.0, height=0.9 + 0.45 * len(rows)) as both:
        for axes, (key, label) in zip(both, kinds, strict=True):
            values = [row[key] for row in rows]
            colour = [colours[row["model"]]["color"] for row in rows]
            bars = axes.barh(range(len(rows)), values, color=colour, height=0.6)
            axes.bar_label(bars, [f" {value:,.0f}" for value in values], fontsize=9)
            axes.set(xlabel=label, xlim=(0, 1.25 * max(values) or 1))
            axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
            axes.locator_params(axis="x", nbins=5)
            axes.xaxis.set_major_formatter(lambda value, _: short_count(value))
            axes.grid(False, axis="y")


def _by_length(name: str, rows: Rows, colours: dict[str, Any], place: Path, guessing: float) -> None:
    x, y, x_label, y_label = BY_LENGTH[name]
    with plotted(place) as (axes,):
        for number, row in enumerate(rows):
            points = [one for one in row.get(name, []) if one[y] is not None]
            look = dict(colours[row["model"]])
            if name == "recall":  # equal lines lie on top of each other
                wide = len(rows) - number
                look |= {"linewidth": 1 + 1.5 * wide, "markersize": 5 + 3 * wide}
            if points:
                axes.plot([one[x] for one in points], [one[y] for one in points], **look, label=row["model"])
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        if name == "lengths":
            axes.set_yscale("log")
            round_ticks(axes.yaxis)
            axes.yaxis.set_major_formatter("{x:g}")
        if name == "longer":
            lengths = sorted({one[x] for row in rows for one in row.get(name, [])})
            axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        if name == "recall":
            axes.axhline(guessing, color="#595959", linewidth=0.8, linestyle=":")
            axes.set_ylim(0, 1.03)
        legend_beside(axes)
