"""``report.html``: one page about one run, readable offline, on a phone and on paper.

Each part is a function from the record to what the template prints; a part without content is left out.
"""

import itertools
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any

from markupsafe import Markup

from headway.io.atomic_write import write_whole
from headway.io.quantities import duration, rows_in_words, short_duration, size
from headway.reports.charts import MOST_POINTS, Chart, Line, draw
from headway.reports.page import escape, part, render
from headway.reports.record import Point, Record, not_numbers, read_record, series
from headway.reports.tables import Table, columns, comparison, confusion, per_class
from headway.reports.verdict import kept_in_words, verdict
from headway.reports.wording import count, decimal, listing, mapping, number, show, words
from headway.tasks.registry import known
from headway.training.health import memorised

MOST_SAMPLES = 5
MOST_LINES = 50
"""Maximum rows shown of lists of any length: decisions, warnings, inputs."""
BYTES_PER_PARAMETER = 4
RISE = 1.02
"""Ratio of the last validation loss to the best from which the page reports that it rose."""
WHY, CODE = Markup('<br><span class="soft">{}</span>'), Markup("<code>{}</code>")
Pairs = list[tuple[object, object]]


def write_report(run: Path) -> Path:
    """Write ``report.html`` into ``run`` from its ``headway.json`` and ``log.jsonl``, and return its path.

    Facts that the run has not recorded (yet) are left out.  The page needs no other file and no network.
    Raises InputError if ``run`` holds neither file, or if ``headway.json`` is not a JSON object.
    """
    text = page(read_record(run))
    path = run / "report.html"
    write_whole(path, lambda new: new.write_text(text, encoding="utf-8"))
    return path


def page(record: Record) -> str:
    """The page about a run."""
    info, about = record.info, mapping(record.info.get("data"))
    version = {"headway": info["headway"]} if info.get("headway") else {}
    machine = {**mapping(info.get("machine")), **version, **mapping(info.get("versions"))}
    measured = {**record.metrics, "seconds": record.total("seconds")}
    names = [_input_name(item) for item in listing(about.get("inputs"))]
    return render(
        "report.html",
        style=part("report.css"),
        title=title(record, names),
        **head(record),
        figures=key_figures(record),
        **learning(record),
        rivals=comparison(known(record.task), record.called, measured, record.baselines),
        columns=columns(record.called, record.metrics, record.baselines),
        **classes(record),
        shown=telling(record),
        samples=samples(record),
        decisions=decisions(record),
        data=data(record, names),
        warnings=listing(about.get("warnings"))[:MOST_LINES],
        model=model(record),
        disk=disk(record),
        machine=[(words(key), value) for key, value in machine.items()],
        command=command(record),
    )


def title(record: Record, inputs: list[str]) -> str:
    """The title: the model and its data."""
    kind = known(record.task).title
    if not inputs:
        return kind
    more = f" and {len(inputs) - 1:,} more" if len(inputs) > 1 else ""
    return f"{kind} trained on {PurePath(inputs[0]).name or inputs[0]}{more}"


def head(record: Record) -> dict[str, Any]:
    """Title, verdict and its limits."""
    started, version = record.info.get("started"), record.info.get("headway")
    when = f"Started {started.replace('T', ' ')[:16]}. " if isinstance(started, str) else ""
    by = f"Headway {version}." if isinstance(version, str) else ""
    sentences = str(escape(verdict(record), 1000)).replace("--from", "<code>--from</code>")
    state = "was interrupted" if record.last_event == "interrupted" else "is unfinished"
    return {
        "origin": when + by,
        "verdict": Markup(sentences),
        "kept": " ".join(kept_in_words(record.info.get("kept"))),
        "health": record.health,
        "unfinished": state if not record.finished and record.last_step is not None else "",
        "last_step": record.last_step,
    }


def key_figures(record: Record) -> Pairs:
    """The numbers at the top."""
    metrics, seconds = record.metrics, record.total("seconds")
    parameters = number(record.info.get("parameters"))
    own = [(one.name, metrics.get(one.key), decimal) for one in known(record.task).metrics]
    last = ("steps", record.last_step, show)
    return _known([*own, ("parameters", parameters, count), ("time", seconds, short_duration), last])


def _known(values: Sequence[tuple[str, Any, Callable[[Any], str]]]) -> Pairs:
    """Those of some values that are numbers, each in words."""
    return [(name, in_words(value)) for name, value, in_words in values if number(value) is not None]


def learning(record: Record) -> dict[str, Any]:
    """The learning curves: name, drawing and notes of each; none before the first logged step.

    For a run without steps a sentence, ``untrained``.
    """
    if not record.steps and (record.finished or record.info.get("steps") == 0) and len(record.evaluations) <= 1:
        tuned = mapping(record.info.get("plan")).get("contrastive")
        how = "tuned on pairs of rows, and its classifier fitted" if tuned else "fitted in closed form"
        sentence = f"This model was {how}, without training steps, so there are no curves."
        return {"untrained": sentence if record.evaluations or record.metrics else "", "charts": []}
    seconds = times(record)
    loss = Chart(
        title="Training and validation loss against steps",
        y_label=f"loss ({known(record.task).loss_unit or 'nats'}){_trained_with(record)}",
        lines=[
            Line("training", series(record.steps, "loss"), "training"),
            Line("validation", series(record.evaluations, "val_loss"), "validation", marks=True),
        ],
        levels=_levels(record, "val_loss"),
        seconds=seconds,
        ring=_kept(record, "val_loss"),
    )
    accuracy = Chart(
        title="Accuracy on the validation data against steps",
        y_label="accuracy (fraction of examples)",
        lines=[Line(record.called, series(record.evaluations, "accuracy"), "validation", marks=True)],
        levels=_levels(record, "accuracy"),
        seconds=seconds,
        ring=_kept(record, "accuracy"),
        highest=1.0,
        height=280,
    )
    learning_rate = Chart(
        title="Learning rate against steps",
        y_label="learning rate",
        lines=[Line("", series(record.steps, "learning_rate"), "third")],
        from_zero=True,
        height=170,
    )
    charts = [
        ("Loss", draw(loss), " ".join(_notes(record))),
        ("Accuracy on the validation data", draw(accuracy), ""),
        ("Learning rate", draw(learning_rate), ""),
    ]
    return {"untrained": "", "charts": charts}


def times(record: Record) -> list[Point]:
    """Seconds at each step, if they never decrease (a resumed run may restart from zero); otherwise nothing."""
    seconds = series(record.steps, "seconds")
    rising = all(before[1] <= after[1] for before, after in itertools.pairwise(seconds))
    return seconds if rising and len(seconds) > 1 else []


def _trained_with(record: Record) -> str:
    """What the training loss has and the validation loss has not, in a phrase."""
    plan = mapping(record.info.get("plan"))
    dropped = mapping(plan.get("model")).get("dropout"), plan.get("token_dropout"), plan.get("bpe_dropout")
    parts = ["dropout"] if any(map(number, dropped)) else []
    if plan.get("label_smoothing") and record.evaluations and not series(record.evaluations, "train_loss"):
        parts.append("smoothing")  # as earlier versions logged it
    return f", in training with {' and '.join(parts)}" if parts else ""


def _levels(record: Record, key: str) -> list[tuple[str, float]]:
    levels = ((str(line.get("name", "baseline")), number(line.get(key))) for line in record.baselines)
    return [(name, value) for name, value in levels if value is not None]


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


def classes(record: Record) -> dict[str, Any]:
    """The size and metrics of each class, and the confusions."""
    metrics, data = record.metrics, mapping(record.info.get("data"))
    sizes, several = mapping(data.get("classes")), "lists" in data or "label_columns" in data
    counts = [number(mapping(data.get("rows")).get(name)) for name in ("trained", "held_out")]
    of = sum(count or 0.0 for count in counts) if several else None
    return {
        "per_class": per_class(metrics.get("per_class"), sizes, of),
        "confusion": confusion(metrics.get("confusion"), record.info.get("labels")),
    }


def telling(record: Record) -> dict[str, Any]:
    """The texts with the most confident mistakes, and those with the least confident predictions."""
    looked_through = mapping(record.info.get("shown"))
    looked_at, wrong = number(looked_through.get("looked_at")), number(looked_through.get("wrong"))
    if looked_at is None:
        return {}
    member = record.info.get("best_member")
    of = f" These are from {show(member)}, the best member of the ensemble." if member else ""
    names = ("text", "label", "predicted", "score", "second", "second_score")
    rows = {
        kind: [{name: mapping(row).get(name) for name in names} for row in listing(looked_through.get(kind))]
        for kind in ("worst", "boundary")
    }
    summary, title = f"{looked_at:,.0f} validation rows were checked.{of}", "Largest errors"
    if wrong is not None:
        summary = f"{wrong:,.0f} of {looked_at:,.0f} checked validation rows are misclassified.{of}"
        title = "Most confident mistakes"
    baseline = mapping(mapping(record.info.get("plan")).get("model")).get("kind")
    return {"summary": summary, "title": title, **rows, "can_be_opened": not baseline}


def samples(record: Record) -> list[dict[str, Any]]:
    """Texts that the model generated during training: the first, the last and some between."""
    texts = [line for line in record.samples if isinstance(line.get("text"), str)]
    most = min(MOST_SAMPLES, len(texts))
    return [texts[index * (len(texts) - 1) // max(1, most - 1)] for index in range(most)]


def decisions(record: Record) -> Table | None:
    """The automatic decisions, their reasons, and the options that change them."""
    lines = [line for line in listing(record.info.get("decisions")) if isinstance(line, dict)]
    rows = []
    for line in lines[:MOST_LINES]:
        why = WHY.format(escape(line["why"])) if line.get("why") else ""
        option = CODE.format(escape(line["option"])) if line.get("option") else ""
        rows.append([line.get("what"), escape(line.get("value")) + why, option])
    return Table(["what", "decided", "to change it"], rows, numbers_from=3) if rows else None


def data(record: Record, inputs: list[str]) -> Pairs:
    """The files and their content."""
    facts = mapping(record.info.get("data"))
    in_tables = {"inputs", "warnings"} | ({"classes"} if mapping(record.metrics.get("per_class")) else set())
    pairs: Pairs = [("files" if len(inputs) > 1 else "file", _first(inputs, 8))] if inputs else []
    shown = {**facts, "rows": rows_in_words(mapping(facts.get("rows"))).removeprefix("rows: ")}
    pairs += [(words(key), value) for key, value in shown.items() if key not in in_tables and value]
    if labels := listing(record.info.get("labels")):
        pairs.append(("labels", _first([show(label) for label in labels], 12)))
    return pairs


def model(record: Record) -> Pairs:
    """The size of the model and the speed of training."""
    parameters = number(record.info.get("parameters"))
    tokens, seconds = record.total("tokens"), record.total("seconds")
    speed = tokens / seconds if tokens and seconds else None
    return _known(
        [
            ("parameters", parameters, "{:,.0f}".format),
            ("weights", parameters, lambda count: f"{size(BYTES_PER_PARAMETER * count)} in float32"),
            ("steps", record.last_step, show),
            ("tokens read", tokens, "{:,.0f}".format),
            ("time", seconds, duration),
            ("speed", speed, "{:,.0f} tokens per second, over the whole run".format),
        ]
    )


def disk(record: Record) -> Pairs:
    """The space of the run, and how to free it."""
    sizes = record.sizes
    if sizes is None or not sizes.resume + sizes.snapshots:
        return []
    freed = Markup("{}, which <code>headway clean --{}</code> frees")
    pairs: Pairs = [("to use the model", size(sizes.use))]
    if sizes.resume:
        pairs.append(("to resume the run", freed.format(size(sizes.resume), "checkpoints")))
    if sizes.snapshots:
        pairs.append(("snapshots", freed.format(size(sizes.snapshots), "snapshots")))
    return [*pairs, ("in all", size(sizes.total))]


def command(record: Record) -> str:
    """The command that repeats the run."""
    given = record.info.get("command")
    line = shlex.join(show(word) for word in given) if isinstance(given, list) else given
    return line if isinstance(line, str) else ""


def _first(names: list[str], most: int) -> str:
    """The first of many names."""
    more = [f"and {len(names) - most:,} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _input_name(item: object) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in ("path", "name", "file") if key in item), item)
    return show(item)
