"""What ``headway bench RUN`` says about the engines that can answer in torch's place."""

from pathlib import Path
from typing import Any

import click

from headway.cli.common import aligned
from headway.errors import InputError
from headway.io.quantities import figure


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
    lines = ["", *_lines(rows, marked)]
    if store:
        stored(Path(run), rows)
        lines += ["", f"With --engine auto, {run} is answered by these from now on."]
    return {"engines": rows, "best_engines": marked}, lines


def _lines(rows: list[dict[str, Any]], marked: dict[str, dict[str, str]]) -> list[str]:
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
