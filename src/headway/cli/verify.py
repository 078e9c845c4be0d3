"""``headway verify``: check that a saved model works correctly on this machine."""

import signal
from typing import Any

import click

from headway.cli.common import Answer, aligned, device_option, interruptible, threads_option, verb


@verb()
@click.argument("run")
@device_option
@threads_option
def command(run: str, device: str, progress: Any) -> Answer:
    """Check the model in RUN (a run, a Hugging Face directory or a hub id) for correctness.

    cache: generation with the KV cache gives the same logits as without it.  batch: texts in one padded batch get the
    same answers as each alone.  accumulation: the gradient of a batch equals the sum over its parts.  export: the
    exported model is the same model.  checkpoints: the files of the run are unchanged.  resume: a few steps of its
    training, killed by SIGKILL and resumed, equal uninterrupted ones, bit for bit.  Checks that do not apply to the
    model are skipped.  RUN is not changed.  If a check fails, the exit status is 1.
    """
    from headway.workflows.verify.verify import verify

    with interruptible(signal.SIGTERM):
        result = verify(run, progress, device=device)
    checks = result["checks"]
    failed = ", ".join(check["name"] for check in checks if check["passed"] is False)
    problem = "" if result["passed"] else f"{run}: failed: {failed}."
    return Answer({"task": result["task"], "checks": checks}, _lines(checks), problem)


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
