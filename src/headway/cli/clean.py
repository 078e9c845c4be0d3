"""``headway clean``: remove the files that are not needed to use or resume a run."""

from pathlib import Path

import click

from headway.cli.common import Answer, verb
from headway.io.quantities import size


@verb()
@click.argument("run")
@click.option("--checkpoints", is_flag=True, help="Also remove the checkpoints that are needed only to resume the run.")
@click.option("--snapshots", is_flag=True, help="Also remove the models that train --snapshots saved at evaluations.")
def command(run: str, checkpoints: bool, snapshots: bool) -> Answer:
    """Remove the files in the directory RUN that are not needed to use its model or to resume its training.

    These are older checkpoints, duplicate weights and the leftovers of killed commands.  With --checkpoints you can
    still use the model but no longer resume RUN; start a new run from it with train --from RUN.
    """
    from headway.training.store.cleaning import clean
    from headway.training.store.contents import sizes
    from headway.training.store.run_directory import RunDirectory

    path = Path(run)
    freed = clean(path, checkpoints=checkpoints, snapshots=snapshots)
    found = sizes(path)
    done = f"freed {size(freed)}" if freed else "nothing to free"
    lines = [f"{run}: {done}; it takes {size(found.total)}{_parts(found.resume, found.snapshots)}"]
    task = (RunDirectory(path).read() or {}).get("task")
    return Answer({"task": task, "freed": freed}, lines)


def _parts(resume: int, snapshots: int) -> str:
    parts = []
    if resume:
        parts.append(f"{size(resume)} of it only to resume the run (--checkpoints frees it)")
    if snapshots:
        parts.append(f"{size(snapshots)} of it snapshots (--snapshots frees it)")
    return f", {', '.join(parts)}" if parts else ""
