"""``headway verify``: whether a saved model keeps its promises, checked on this machine."""

import signal
import time
from typing import Any

import click

from headway.cli.common import device_option, emit, interruptible, output_options, threads_option


@click.command(short_help="Check that a saved model keeps its promises, on this machine.")
@click.argument("run")
@device_option
@threads_option
@output_options
def command(run: str, device: str, as_json: bool, quiet: bool) -> None:
    """Check what is promised of every model on the one in RUN (a run, a Hugging Face directory or a hub id).

    cache: writing with the cache gives the logits of writing without.  batch: texts in one padded batch are answered
    as each is alone.  accumulation: the gradient of a batch is that of its parts.  export: what is written for other
    programs is the same model.  checkpoints: those of the run are as they were written.  resume: a few steps of its
    training, killed by SIGKILL and taken up again, end as those left alone, bit for bit.  A check that means nothing
    for the model is skipped.  RUN is not changed.  When a promise is not kept, the exit status is 1.
    """
    started = time.monotonic()
    from headway.training.monitor.progress import shown_to
    from headway.workflows.verify.verify import verify

    progress = shown_to(quiet)
    try:
        with interruptible(signal.SIGTERM):
            found = verify(run, progress, device=device)
    finally:
        progress.close()
    result = {"task": found["task"], "seconds": time.monotonic() - started, "checks": found["checks"]}
    emit(result, as_json, _lines(found["checks"]))
    if not found["passed"]:
        failed = [check["name"] for check in found["checks"] if check["passed"] is False]
        raise click.ClickException(f"{run}: not kept: {', '.join(failed)}.")


def _lines(checks: list[dict[str, Any]]) -> list[str]:
    """The checks as a table, each followed by what was compared."""
    rows = [("check", "result", "difference", "bound", "seconds")]
    for check in checks:
        result = {True: "passed", False: "FAILED", None: "skipped"}[check["passed"]]
        rows.append(
            (check["name"], result, _number(check["value"]), _number(check["bound"]), f"{check['seconds']:.1f}")
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines = table[:1]
    for line, check in zip(table[1:], checks, strict=True):
        lines.append(line)
        lines.append(f"    {check.get('skipped') or check.get('problem') or check['what']}")
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
