"""``headway clean``: remove what is not needed to use a run or to go on with it."""

import time
from pathlib import Path

import click

from headway.cli.common import emit, output_options
from headway.io.quantities import size


@click.command(short_help="Free the disk of what a run does not need.")
@click.argument("run")
@click.option("--checkpoints", is_flag=True, help="Also remove what is needed only to go on with the run.")
@click.option("--snapshots", is_flag=True, help="Also remove the models of evaluations that train --snapshots kept.")
@output_options
def command(run: str, checkpoints: bool, snapshots: bool, as_json: bool, quiet: bool) -> None:
    """Remove from the directory RUN what is not needed to use its model or to go on with its training.

    That is older checkpoints, weights that are kept twice, and what commands that were killed left there.  With
    --checkpoints the model can still be used, but not be trained further in RUN; begin from it with train --from RUN.
    """
    started = time.monotonic()
    from headway.training.store.cleaning import clean, sizes
    from headway.training.store.run_directory import RunDirectory

    path = Path(run)
    freed = clean(path, checkpoints=checkpoints, snapshots=snapshots)
    found = sizes(path)
    done = f"freed {size(freed)}" if freed else "nothing to free"
    lines = [f"{run}: {done}; it takes {size(found.total)}{_parts(found.resume, found.snapshots)}"]
    task = (RunDirectory(path).read() or {}).get("task")
    emit({"task": task, "seconds": time.monotonic() - started, "freed": freed}, as_json, lines)


def _parts(resume: int, snapshots: int) -> str:
    """What of it could be freed further."""
    parts = []
    if resume:
        parts.append(f"{size(resume)} of it only to go on with the run (--checkpoints frees them)")
    if snapshots:
        parts.append(f"{size(snapshots)} of it snapshots (--snapshots frees them)")
    return f", {', '.join(parts)}" if parts else ""
