"""``GET /training?model=NAME``: the curves, samples and verdict of the run that a model was loaded from.

The run directory is read again for every request, so a run that is still training is shown as it goes on.
"""

from pathlib import Path
from typing import Any

from headway.serving.answers import answer
from headway.serving.errors import RequestError
from headway.serving.generation import in_thread
from headway.serving.state import State

MOST_POINTS = 400
MOST_SAMPLES = 20
LONGEST_SAMPLE = 1000
"""Characters."""


async def training(request: Any, state: State) -> Any:
    """Answer a request to ``/training``."""
    served = state.models.find(request.query_params.get("model"))
    if served.directory is None:
        raise RequestError(404, f"{served.name} was not loaded from a run directory")
    return answer({"model": served.name, **await in_thread(run_so_far, served.directory)})


def run_so_far(directory: Path) -> dict[str, Any]:
    """What a run directory tells, whatever part of it is missing: {"finished", "last_step", "verdict", ...}.

    "steps" and "evaluations" are [step, loss] each, thinned to at most ``MOST_POINTS``; "samples" are the last ones.
    """
    from headway.reports.record import read_record, series
    from headway.reports.verdict import verdict

    record = read_record(directory)
    return {
        **{"finished": record.finished, "last_step": record.last_step, "health": record.health},
        "verdict": verdict(record) if record.finished else "",
        "steps": _thinned(series(record.steps, "loss")),
        "evaluations": _thinned(series(record.evaluations, "val_loss")),
        "samples": [
            {"step": line.get("step"), "text": str(line.get("text", ""))[:LONGEST_SAMPLE]}
            for line in record.samples[-MOST_SAMPLES:]
        ],
    }


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Every n-th point and the last one."""
    every = -(-len(points) // MOST_POINTS) or 1
    return [*points[:-1:every], *points[-1:]]
