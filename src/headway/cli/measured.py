"""What ``headway bench RUN`` says of the precisions that a model can answer in, and of the engines beside torch."""

from pathlib import Path
from typing import Any

import click

from headway.cli.common import aligned
from headway.errors import InputError
from headway.io.quantities import figure, size


def measured_precisions(
    run: str, *, limit: float, device: str, full: bool, store: str | None, progress: Any
) -> tuple[dict[str, Any], list[str]]:
    """The entries of the result, and the lines for a person; both empty for a model without its data.

    Raises InputError where ``store`` is no precision that was measured, or cannot be stored.
    """
    from headway.models.device import device_of
    from headway.runtime.precision import available
    from headway.workflows.precisions import best, few_units, plain, precisions, stored

    names = ("best", *available(device_of(device)))
    if store is not None and store not in names:
        raise InputError(f"--store {store}: it can be {', '.join(names[:-1])} or {names[-1]}.")
    try:
        rows = precisions(run, limit=limit, device=device, full=full, progress=progress)
    except InputError as error:
        if store is not None:
            raise
        click.echo(f"headway: warning: the precisions were not measured: {error}", err=True)
        return {}, []
    lines = ["", *_precision_lines(rows, best(rows))]
    if few_units(rows):
        few = f"{rows[0]['units']:,.0f} held-out units were measured: too few to choose by, so float32 stays the best"
        lines.append(f"Only {few} (--full or more --time measures all of them).")
    if store is not None:
        chosen = best(rows) if store == "best" else store
        stored(Path(run), rows, chosen)
        lines += ["", f"{run} answers in {chosen} from now on (--precision for another)."]
    return {"precisions": plain(rows), "best": best(rows)}, lines


def _precision_lines(rows: list[dict[str, Any]], marked: str) -> list[str]:
    """The precisions as a table, the best one marked."""
    metric = next((row["metric"] for row in rows if row["metric"] is not None), None)
    batches = [(speed["threads"], speed["batch"]) for speed in rows[0]["speeds"]]
    threads = batches[-1][0]
    shown = [batch for count, batch in batches if count == threads]
    examples = rows[0]["examples"]
    heads = [f"{batch} at once" for batch in shown]
    table = [["precision", "weights", "loading", "ms for one", *heads, metric.name if metric else "", ""]]
    for row in rows:
        speeds = {(speed["threads"], speed["batch"]): speed for speed in row["speeds"]}
        cells = [figure(speeds[threads, batch]["per_second"], 3) for batch in shown]
        value = "" if row["value"] is None else f"{row['value']:.4g}"
        if row.get("interval"):
            value += f" ({row['interval'][0]:.4g} to {row['interval'][1]:.4g})"
        one = f"{speeds[threads, 1]['latency_ms']:.3g}"
        name, best = row["precision"], "best" if row["precision"] == marked else ""
        table.append([name, size(row["bytes"]), f"{row['load_seconds']:.2g} s", one, *cells, value, best])
    return [
        *aligned(table),
        "",
        f"With {threads} threads; under a batch are texts a second, or tokens a second of a language model.  best is",
        "the fastest whose metric is within 1 point (of a loss 0.02 nats) of float32's; --store keeps it in the run.",
        *([f"The metric is of {examples:,} held-out examples; --full measures all of them."] if examples else []),
    ]


def measured_engines(run: str, *, limit: float, store: bool, progress: Any) -> tuple[dict[str, Any], list[str]]:
    """The entries of the result, and the lines for a person; of a run without exports, one line that says how.

    Raises InputError where ``store`` is asked for and what was measured cannot be stored.
    """
    from headway.workflows.engines import best, engines, stored

    try:
        rows = engines(run, limit=limit, progress=progress)
    except InputError as error:
        click.echo(f"headway: warning: the engines were not measured: {error}", err=True)
        return {}, []
    if not rows:
        return {}, ["", f"No export of an engine lies in {run}; `headway export {run} --to onnx` makes one."]
    marked = best(rows)
    lines = ["", *_engine_lines(rows, marked)]
    if store:
        stored(Path(run), rows)
        lines += ["", f"With --engine auto, {run} is answered by these from now on."]
    return {"engines": rows, "best_engines": marked}, lines


def _engine_lines(rows: list[dict[str, Any]], marked: dict[str, dict[str, str]]) -> list[str]:
    """The engines as a table, the best one of each precision marked, and what the others lack."""
    from headway.workflows.engines import BATCHES, is_same

    own = {row["precision"]: row for row in rows if row["engine"] == "torch"}
    measured = [row for row in rows if row["problem"] is None]
    table = [["engine", "precision", *(f"{batch} at once" for batch in BATCHES), "answers equal", ""]]
    for row in measured:
        speeds = [figure(speed["per_second"], 3) for speed in row["speeds"]]
        equal = f"{row['equal']:,} of {row['compared']:,}"
        if row["cosine"] is not None:
            equal += f" (cosine {row['cosine']:.6f} at least)"
        at = [key for key, name in marked[row["precision"]].items() if name == row["engine"]]
        note = f"best for {' and '.join(at)}" if at else ""
        if row["engine"] != "torch" and not is_same(row, own[row["precision"]]):
            few = row["equal"] == row["compared"]
            note = f"not for auto: {'too few answers were compared' if few else 'its answers differ'}"
        table.append([row["engine"], row["precision"], *speeds, equal, note])
    return [
        *aligned(table),
        *(f"{row['engine']} {row['precision']}: not measured: {row['problem']}" for row in rows if row["problem"]),
        "",
        "Answers (of a language model tokens) a second; equal to those of torch in float32, on held-out data.",
        "best is the fastest whose answers are the same, for one at once (few) and for 32 (many): what --engine auto",
        "takes; --store keeps it in the run.",
    ]
