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
    parts = [
        (found.resume, "only to resume the run (--checkpoints frees it)"),
        (found.snapshots, "snapshots (--snapshots frees it)"),
    ]
    sizes_of = [size(found.total), *(f"{size(n_bytes)} of it {what}" for n_bytes, what in parts if n_bytes)]
    lines = [f"{run}: {done}; it takes {', '.join(sizes_of)}"]
    task = (RunDirectory(path).read() or {}).get("task")
    return Answer({"task": task, "freed": freed}, lines)
