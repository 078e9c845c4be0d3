"""``headway evaluate``: measure a saved model on a file."""

import time
from pathlib import Path
from typing import Any

import click

from headway.cli.aliases import in_our_names
from headway.cli.common import SEVERAL, Answer, device_option, threads_option, verb
from headway.errors import field
from headway.io.quantities import counted, metric, rows_in_words
from headway.tasks.registry import spec
from headway.training.evaluation.metric import REPORTED
from headway.training.options import OPTIONS

MORE = ("bleu_lowercase", "signatures", "columns")
"""Reported for translators, and for several label columns."""


def evaluate(
    run: str | Path,
    data: Any = None,
    *,
    device: str = "auto",
    precision: str = "float32",
    text_column: str | None = None,
    label_column: str | None = None,
    second_column: str | None = None,
    delimiter: str | None = None,
    on_bad_row: str | None = None,
    encoding: str | None = None,
    merge_labels: str | None = None,
    labels_as_text: bool = False,
) -> dict[str, Any]:
    """Measure a saved model; returns what ``headway evaluate --json`` prints.

    ``data`` is the name of a file, a list of them, or data in memory as ``headway.train`` takes it.  Without it, the
    model is measured on the held-out part of its training data.  The other options are the command's options.
    Raises InputError for data that cannot be measured.
    """
    columns = {"text_column": text_column, "label_column": label_column, "second_column": second_column}
    columns = in_our_names(columns)
    reading = {"delimiter": delimiter, "on_bad_row": on_bad_row, "encoding": encoding, "merge_labels": merge_labels}
    how = {"device": device, "precision": precision, "labels_as_text": labels_as_text}
    return _printed(_measured(run, () if data is None else data, **how, **columns, **reading))


def _measured(run: str | Path, data: Any, **options: Any) -> dict[str, Any]:
    """The result of ``workflows.evaluate``, with the seconds that it took."""
    started = time.monotonic()
    from headway.workflows.evaluate import evaluate

    found = evaluate(run, data, **options)
    return {"task": found["task"], "seconds": time.monotonic() - started, **found}


def _printed(found: dict[str, Any]) -> dict[str, Any]:
    always = [metric.key for metric in REPORTED]
    own = [metric.key for metric in spec(found["task"]).metrics if metric.key not in always]
    keys = ("task", "precision", "engine", "seconds", *always, "examples", *(k for k in (*own, *MORE) if k in found))
    return {key: found[key] for key in keys}


@verb()
@click.argument("run")
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option("--text-column", help="Text column; several are joined.", **SEVERAL)
@click.option("--label-column", help="Label column; of several labels, each.", **SEVERAL)
@click.option("--second-column", help="Column of the second text of each pair, or of the target.")
@click.option("--delimiter", help="Column delimiter, if not detected correctly.")
@click.option("--on-bad-row", type=click.Choice(["error", "skip"]), help="Stop at a malformed row, or skip it.")
@click.option("--encoding", help="Encoding of the files, if not UTF-8.")
@click.option("--merge-labels", help=f"As for train: {OPTIONS['merge_labels'].metadata['help']}.")
@click.option("--labels-as-text", is_flag=True, help=f"As for train: {OPTIONS['labels_as_text'].metadata['help']}.")
@device_option
@click.option("--precision", default="float32", show_default=True, help="Precision of the model, as it answers in.")
@threads_option
def command(run: str, inputs: tuple[str, ...], **columns: Any) -> Answer:
    """Measure the model in RUN on INPUT; without INPUT, on the held-out part of its training data.

    If INPUT is the file that the model was trained on, only its held-out part is measured.
    """
    found = _measured(run, inputs, **columns)
    return Answer(_printed(found), _lines(found))


def _lines(found: dict[str, Any]) -> list[str]:
    from headway.reports.tables import columns_in_words
    from headway.reports.verdict import comparison_in_words, interval

    measured = {key: value for key, value in found.items() if isinstance(value, float) and key != "seconds"}
    names = {"accuracy": spec(found["task"]).metric("accuracy").name}
    numbers = [f"{names.get(key, key)} {metric(value)}" for key, value in measured.items()]
    verdict = found["verdict"]
    own = interval(verdict.get("interval"))
    how = f"in {found['precision']}"
    if found["stored"] not in (None, found["precision"]):
        how += f" (the run answers in {found['stored']}: --precision {found['stored']} measures that)"
    lines = [f"{field(found['on'])}: {counted(found['examples'], spec(found['task']).unit)}, {how}"]
    lines += [*([rows_in_words(found["rows"])] if found["rows"] else []), ", ".join(numbers)]
    if own:
        lines.append(f"{verdict['metric']}: {own}")
    if verdict.get("against") is not None:
        lines.append(" ".join(comparison_in_words(verdict, found["task"], found["called"])))
    lines += columns_in_words(found, [])
    lines += [f"  {name}: {signature}" for name, signature in found.get("signatures", {}).items()]
    task = spec(found["task"])
    unit = "span" if task.answers == "spans" else task.unit
    for label, entry in (found.get("per_class") or {}).items():
        lines.append(
            f"  {field(label)}: precision {entry['precision']:.3f}, recall {entry['recall']:.3f}, "
            f"F1 {entry['f1']:.3f}, {counted(entry['support'], unit)}"
        )
    return lines
