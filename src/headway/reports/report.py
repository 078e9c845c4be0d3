"""``report.html``: one page about one run, readable offline, on a phone and on paper.

Each part is a function from the record to HTML; a part without content is empty.
"""

import shlex
from pathlib import Path, PurePath

from headway.io.atomic_write import write_whole
from headway.io.quantities import duration, rows_in_words, short_duration, size
from headway.reports.learning import learning
from headway.reports.record import Record, read_record
from headway.reports.style import page as framed
from headway.reports.tables import comparison, confusion, facts, per_class, rows_of_text, table
from headway.reports.verdict import kept_in_words, verdict
from headway.reports.wording import Html, count, decimal, escape, listing, mapping, number, show, words
from headway.tasks.registry import known

MOST_SAMPLES = 5
LONGEST_SAMPLE = 900
LONGEST_COMMAND = 8000
MOST_LINES = 50
"""Maximum rows shown of lists of any length: decisions, warnings, inputs."""
BYTES_PER_PARAMETER = 4


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
    parts = (
        *(head, key_figures, learning, against_baselines, classes),
        *(telling, samples, decisions, data, model, disk),
        *(machine, command),
    )
    body = "\n".join(html for part in parts if (html := part(record)))
    return framed(escape(title(record), 200), body, "headway.json and log.jsonl")


def title(record: Record) -> str:
    """The title: the model and its data."""
    kind = known(record.task).title
    inputs = [_input_name(item) for item in listing(mapping(record.info.get("data")).get("inputs"))]
    if not inputs:
        return kind
    more = f" and {len(inputs) - 1:,} more" if len(inputs) > 1 else ""
    return f"{kind} trained on {PurePath(inputs[0]).name or inputs[0]}{more}"


def head(record: Record) -> Html:
    """Title, verdict and its limits."""
    started = record.info.get("started")
    when = f"Started {started.replace('T', ' ')[:16]}. " if isinstance(started, str) else ""
    version = record.info.get("headway")
    by = f"Headway {version}." if isinstance(version, str) else ""
    said = escape(verdict(record), 1000).replace("--from", "<code>--from</code>")
    parts = [f'<h1 dir="auto">{escape(title(record), 200)}</h1>']
    if when or by:
        parts.append(f'<p class="soft">{escape(when + by)}</p>')
    parts.append(f'<p class="verdict">{said}</p>')
    if kept := " ".join(kept_in_words(record.info.get("kept"))):
        parts.append(f'<p class="soft">{escape(kept, 1000)}</p>')
    if health := record.health:
        parts.append(f'<p class="warn">At the last evaluation: {escape(health)}.</p>')
    if not record.finished and record.last_step is not None:
        state = "was interrupted" if record.last_event == "interrupted" else "is unfinished"
        parts.append(
            f'<p class="warn">This run {state}: its last known step is {record.last_step:,}. '
            "The command at the end of this page resumes it.</p>"
        )
    return Html("".join(parts))


def key_figures(record: Record) -> Html:
    metrics, own = record.metrics, known(record.task).metrics
    pairs = [(one.name, decimal(metrics[one.key])) for one in own if number(metrics.get(one.key)) is not None]
    if (parameters := number(record.info.get("parameters"))) is not None:
        pairs.append(("parameters", count(parameters)))
    if (seconds := record.total("seconds")) is not None:
        pairs.append(("time", short_duration(seconds)))
    if record.last_step is not None:
        pairs.append(("steps", f"{record.last_step:,}"))
    items = "".join(f"<li><b>{escape(value)}</b><span>{escape(name)}</span></li>" for name, value in pairs)
    return Html(f'<ul class="figures">{items}</ul>' if items else "")


def against_baselines(record: Record) -> Html:
    """The metrics of the model and the baselines on the same validation data."""
    measured = {**record.metrics, "seconds": record.total("seconds")}
    found = comparison(known(record.task), record.called, measured, record.baselines)
    if not found:
        return found
    return _section("Against simple models", f'<p class="soft">On the same data; bold: best of the column.</p>{found}')


def classes(record: Record) -> Html:
    """The size and metrics of each class, and the confusions."""
    metrics, data = record.metrics, mapping(record.info.get("data"))
    sizes, several = mapping(data.get("classes")), "lists" in data or "label_columns" in data
    counts = [number(mapping(data.get("rows")).get(name)) for name in ("trained", "held_out")]
    matrix = confusion(metrics.get("confusion"), record.info.get("labels"))
    mistakes = f"<h3>Confusion matrix</h3>{matrix}" if matrix else ""
    of = sum(count or 0.0 for count in counts) if several else None
    return _section("Metrics by class", per_class(metrics.get("per_class"), sizes, of) + mistakes)


def telling(record: Record) -> Html:
    """The texts with the most confident mistakes, and those with the least confident predictions."""
    found = mapping(record.info.get("shown"))
    looked_at, wrong = number(found.get("looked_at")), number(found.get("wrong"))
    if looked_at is None or wrong is None:
        return Html("")
    member = record.info.get("best_member")
    of = f" These are from {show(member)}, the best member of the ensemble." if member else ""
    said = f"{wrong:,.0f} of {looked_at:,.0f} checked validation rows are misclassified.{of}"
    worst, near = (rows_of_text(found.get(name)) for name in ("worst", "boundary"))
    parts = [f'<p class="soft">{escape(said)}</p>']
    if worst:
        parts.append(f"<h3>Most confident mistakes</h3>{worst}")
    if near:
        parts.append(f"<h3>Least confident predictions</h3>{near}")
    if not mapping(mapping(record.info.get("plan")).get("model")).get("kind"):  # a baseline
        parts.append(
            '<p class="soft"><code>headway attention RUN "TEXT"</code> shows where the model looks in one of them, '
            "and <code>headway explain RUN</code> the model block by block.</p>"
        )
    return _section("Texts to inspect", "".join(parts))


def samples(record: Record) -> Html:
    """Texts that the model generated during training: the first, the last and some between."""
    found = [line for line in record.samples if isinstance(line.get("text"), str)]
    most = min(MOST_SAMPLES, len(found))
    chosen = [found[index * (len(found) - 1) // max(1, most - 1)] for index in range(most)]
    return _section(
        "Samples during training",
        "".join(
            f'<h3>Step {escape(line["step"])}</h3><pre dir="auto">{escape(line["text"], LONGEST_SAMPLE)}</pre>'
            for line in chosen
        ),
    )


def decisions(record: Record) -> Html:
    """The automatic decisions, their reasons, and the options that change them."""
    found = [line for line in listing(record.info.get("decisions")) if isinstance(line, dict)]
    rows = []
    for line in found[:MOST_LINES]:
        why = f'<br><span class="soft">{escape(line["why"])}</span>' if line.get("why") else ""
        option = Html(f"<code>{escape(line['option'])}</code>") if line.get("option") else ""
        rows.append([line.get("what"), Html(f"{escape(line.get('value'))}{why}"), option])
    return _section("Decisions", table(["what", "decided", "to change it"], rows, numbers_from=3) if rows else "")


def data(record: Record) -> Html:
    """The files, their content, and warnings."""
    found = mapping(record.info.get("data"))
    in_tables = {"inputs", "warnings"} | ({"classes"} if mapping(record.metrics.get("per_class")) else set())
    inputs = [_input_name(item) for item in listing(found.get("inputs"))]
    more = [f"and {len(inputs) - 8:,} more"] if len(inputs) > 8 else []
    pairs: list[tuple[object, object]] = []
    if inputs:
        pairs.append(("files" if len(inputs) > 1 else "file", ", ".join([*inputs[:8], *more])))
    shown = {**found, "rows": rows_in_words(mapping(found.get("rows"))).removeprefix("rows: ")}
    pairs += [(words(key), value) for key, value in shown.items() if key not in in_tables and value]
    if labels := listing(record.info.get("labels")):
        rest = [f"and {len(labels) - 12:,} more"] if len(labels) > 12 else []
        pairs.append(("labels", ", ".join([*(show(label) for label in labels[:12]), *rest])))
    warnings = "".join(f'<p class="warn">{escape(line)}</p>' for line in listing(found.get("warnings"))[:MOST_LINES])
    return _section("The data", facts(pairs) + warnings)


def model(record: Record) -> Html:
    """The size of the model and the speed of training."""
    pairs: list[tuple[object, object]] = []
    if (parameters := number(record.info.get("parameters"))) is not None:
        pairs.append(("parameters", f"{parameters:,.0f}"))
        pairs.append(("weights", f"{size(BYTES_PER_PARAMETER * parameters)} in float32"))
    if record.last_step is not None:
        pairs.append(("steps", f"{record.last_step:,}"))
    tokens, seconds = record.total("tokens"), record.total("seconds")
    if tokens is not None:
        pairs.append(("tokens read", f"{tokens:,.0f}"))
    if seconds is not None:
        pairs.append(("time", duration(seconds)))
    if tokens and seconds:
        pairs.append(("speed", f"{tokens / seconds:,.0f} tokens per second, over the whole run"))
    return _section("The model", facts(pairs))


def disk(record: Record) -> Html:
    found = record.sizes
    if found is None or not found.resume + found.snapshots:
        return Html("")
    pairs: list[tuple[object, object]] = [("to use the model", size(found.use))]
    if found.resume:
        clean = Html("<code>headway clean --checkpoints</code>")
        pairs.append(("to resume the run", Html(f"{size(found.resume)}, which {clean} frees")))
    if found.snapshots:
        clean = Html("<code>headway clean --snapshots</code>")
        pairs.append(("snapshots", Html(f"{size(found.snapshots)}, which {clean} frees")))
    return _section("On disk", facts([*pairs, ("in all", size(found.total))]))


def machine(record: Record) -> Html:
    version = {"headway": record.info["headway"]} if record.info.get("headway") else {}
    found = {**mapping(record.info.get("machine")), **version, **mapping(record.info.get("versions"))}
    return _section("Machine and versions", facts((words(key), value) for key, value in found.items()))


def command(record: Record) -> Html:
    """The command that repeats the run."""
    given = record.info.get("command")
    line = shlex.join(show(word) for word in given) if isinstance(given, list) else given
    if not isinstance(line, str) or not line:
        return Html("")
    return _section(
        "To repeat it",
        f"<pre><code>{escape(line, LONGEST_COMMAND)}</code></pre>"
        '<p class="soft">In the directory of this run the command resumes it; use another '
        "<code>--out</code> to start over.</p>",
    )


def _section(name: str, body: str) -> Html:
    return Html(f"<section><h2>{escape(name)}</h2>{body}</section>" if body else "")


def _input_name(item: object) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in ("path", "name", "file") if key in item), item)
    return show(item)
