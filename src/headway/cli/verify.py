"""``headway verify``: check that a saved model works correctly on this machine."""

import signal
import time
from typing import Any

import click

from headway.cli.common import aligned, device_option, emit, interruptible, output_options, threads_option


@click.command(short_help="Check that a saved model works correctly on this machine.")
@click.argument("run")
@device_option
@threads_option
@output_options
def command(run: str, device: str, as_json: bool, quiet: bool) -> None:
    """Check the model in RUN (a run, a Hugging Face directory or a hub id) for correctness.

    cache: generation with the KV cache gives the same logits as without it.  batch: texts in one padded batch get the
    same answers as each alone.  accumulation: the gradient of a batch equals the sum over its parts.  export: the
    exported model is the same model.  checkpoints: the files of the run are unchanged.  resume: a few steps of its
    training, killed by SIGKILL and resumed, equal uninterrupted ones, bit for bit.  Checks that do not apply to the
    model are skipped.  RUN is not changed.  If a check fails, the exit status is 1.
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
        raise click.ClickException(f"{run}: failed: {', '.join(failed)}.")


def _lines(checks: list[dict[str, Any]]) -> list[str]:
    rows = [("check", "result", "difference", "bound", "seconds")]
    for check in checks:
        result = {True: "passed", False: "FAILED", None: "skipped"}[check["passed"]]
        value, bound = ("-" if check[key] is None else f"{check[key]:.2g}" for key in ("value", "bound"))
        rows.append((check["name"], result, value, bound, f"{check['seconds']:.1f}"))
    head, *table = aligned(rows)
    lines = [head]
    for line, check in zip(table, checks, strict=True):
        lines += [line, f"    {check.get('skipped') or check.get('problem') or check['what']}"]
    return lines
