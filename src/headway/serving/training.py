"""``GET /training?model=NAME``: the curves, samples, verdict and snapshots of the run that a model was loaded from.

The run directory is read again for every request, so a run that is still training is shown as it goes on.  Nothing here
imports torch: ``headway train --watch`` reads its run in the same way.
"""

import shlex
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.reports.record import Record, read_record, series
from headway.reports.verdict import kept_in_words, verdict
from headway.reports.wording import mapping, number
from headway.serving.responses import RequestError, answer, in_thread
from headway.tasks.registry import known
from headway.training.store.contents import snapshots

MOST_POINTS = 400
MOST_SAMPLES = 20
LONGEST_SAMPLE = 1000
"""Characters."""
MOST_SNAPSHOTS = 50


async def training(request: Any, state: Any) -> Any:
    """Answer a request to ``/training``; ``state`` is a State."""
    served = state.find(request, request.query_params.get("model"))
    if served.directory is None:
        raise RequestError(404, f"{served.name} was not loaded from a run directory")
    found = await in_thread(run_so_far, served.directory)
    if not found["begun"]:
        raise RequestError(404, f"the run directory of {served.name} is gone, or cannot be read")
    return answer({"model": served.name, **found})


def run_so_far(directory: Path, part: str = "") -> dict[str, Any]:
    """What a run directory tells, whatever is missing of it: {"run", "begun", "finished", "last_step", "steps", ...}.

    ``part`` is the name of a run inside the run, such as seed-0, which is told of instead.  "steps" and "evaluations"
    are [step, loss] each, thinned to at most ``MOST_POINTS``; "samples" are the last ones.  "begun" is false where
    there is nothing to read, and all else is then empty.
    """
    place = directory / part
    try:
        record, begun = read_record(place), True
    except (InputError, OSError):  # not there yet, or there no longer
        record, begun = Record(), False
    finished = record.finished and record.info.get("finished") is not False  # False also while it is continued
    return {
        **{"run": directory.name, "part": part, "begun": begun, "finished": finished},
        **{"last_step": record.last_step, "health": record.health, "verdict": verdict(record) if finished else ""},
        "kept": " ".join(kept_in_words(record.info.get("kept"))) if finished else "",
        "steps": _thinned(series(record.steps, "loss")),
        "evaluations": _thinned(series(record.evaluations, "val_loss")),
        "samples": [
            {"step": line.get("step"), "text": str(line.get("text", ""))[:LONGEST_SAMPLE]}
            for line in record.samples[-MOST_SAMPLES:]
        ],
        "snapshots": _snapshots(directory, part, record, finished),
        **{"serve": _command("serve", _place(directory)), "here": _place(directory) != directory.name},
    }


def _snapshots(directory: Path, part: str, record: Record, finished: bool) -> list[dict[str, Any]]:
    """The newest snapshots and the kept one, by step: {"name", "step", "val_loss", "bytes", "kept", "command"} each."""
    found, losses, task = snapshots(directory / part), dict(series(record.evaluations, "val_loss")), known(record.task)
    kept = _kept_step(record, finished)
    rows = []
    for one in found[-MOST_SNAPSHOTS:] + [old for old in found[:-MOST_SNAPSHOTS] if old.step == kept]:
        name = "/".join(filter(None, (part, one.name)))
        command = f"{_command(task.verb, f'{_place(directory)}/{name}')} {task.argument}"
        row = {"name": name, "step": one.step, "val_loss": losses.get(one.step), "bytes": one.size}
        rows.append({**row, "kept": one.step == kept, "command": command})
    return sorted(rows, key=lambda row: row["step"])


def _kept_step(record: Record, finished: bool) -> int | None:
    """The step whose weights the run answers with; None where it has none."""
    step = number(mapping(record.info.get("kept")).get("step")) if finished else None
    if step is None:
        last = mapping(record.info.get("options")).get("keep") == "last" and record.evaluations
        step = number((record.evaluations[-1] if last else record.best).get("step"))
    return None if step is None else int(step)


def _place(directory: Path) -> str:
    """The directory as a command names it where the server was started; its name alone if it is elsewhere."""
    here = Path.cwd()
    return str(directory.relative_to(here)) if directory.is_relative_to(here) and directory != here else directory.name


def _command(verb: str, path: str) -> str:
    """A command on a directory, as a shell takes it."""
    return f"headway {verb} {shlex.quote(f'./{path}' if path.startswith('-') else path)}"


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Every n-th point and the last one."""
    every = -(-len(points) // MOST_POINTS) or 1
    return [*points[:-1:every], *points[-1:]]
