"""``headway evaluate``: measure a saved model on a file."""

from typing import Any

import click

from headway.cli.common import SEVERAL, Answer, device_option, threads_option, verb
from headway.errors import field
from headway.io.quantities import counted, metric, rows_in_words
from headway.tasks.registry import spec
from headway.training.options import OPTIONS


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
    from headway.workflows.evaluate import evaluate, shown

    metrics = evaluate(run, inputs, **columns)
    return Answer(shown(metrics), _lines(metrics))


def _lines(result: dict[str, Any]) -> list[str]:
    from headway.reports.tables import columns_in_words
    from headway.reports.verdict import comparison_in_words, interval

    measured = {key: value for key, value in result.items() if isinstance(value, float) and key != "seconds"}
    names = {"accuracy": spec(result["task"]).metric("accuracy").name}
    numbers = [f"{names.get(key, key)} {metric(value)}" for key, value in measured.items()]
    verdict = result["verdict"]
    own = interval(verdict.get("interval"))
    how = f"in {result['precision']}"
    if result["stored"] not in (None, result["precision"]):
        how += f" (the run answers in {result['stored']}: --precision {result['stored']} measures that)"
    lines = [f"{field(result['on'])}: {counted(result['examples'], spec(result['task']).unit)}, {how}"]
    lines += [*([rows_in_words(result["rows"])] if result["rows"] else []), ", ".join(numbers)]
    if own:
        lines.append(f"{verdict['metric']}: {own}")
    if verdict.get("against") is not None:
        lines.append(" ".join(comparison_in_words(verdict, result["task"], result["called"])))
    lines += columns_in_words(result, [])
    lines += [f"  {name}: {signature}" for name, signature in result.get("signatures", {}).items()]
    task = spec(result["task"])
    unit = "span" if task.answers == "spans" else task.unit
    for label, entry in (result.get("per_class") or {}).items():
        lines.append(
            f"  {field(label)}: precision {entry['precision']:.3f}, recall {entry['recall']:.3f}, "
            f"F1 {entry['f1']:.3f}, {counted(entry['support'], unit)}"
        )
    return lines
