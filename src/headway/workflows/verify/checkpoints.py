"""The files of the run's checkpoints are unchanged."""

from pathlib import Path

from headway.training.store.checkpoint import damaged
from headway.workflows.verify.check import Check

NAME = "checkpoints"


def check_checkpoints(directory: Path) -> Check:
    """Compare every file of the checkpoints in a run directory with its recorded size and SHA-256."""
    found = damaged(directory / "checkpoints")
    what = f"damaged checkpoints among {len(found)}"
    if not found:
        return Check(NAME, what, skipped="there are no checkpoints here")
    problems = [f"{path.name}: {problem}" for path, problem in found.items() if problem is not None]
    return Check(NAME, what, float(len(problems)), 0.0, "; ".join(problems) or None)
