"""Training that is killed and resumed equals uninterrupted training, bit for bit."""

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from headway.errors import InputError
from headway.io.quantities import duration, size
from headway.training.hardware.measure import SAVED_IN_A_SECOND
from headway.training.hardware.precision import product_rate
from headway.training.monitor.progress import Progress
from headway.training.store.checkpoint import newest_checkpoint
from headway.training.store.log import read_log
from headway.workflows.command import Command
from headway.workflows.verify.check import Check, DoesNotApply, difference, worst
from headway.workflows.verify.replay import NEVER, Replay, replay
from headway.workflows.verify.samples import Subject

NAME = "resume"
AT_ONCE = "0.001s"
KILLED_AFTER = 2
"""Minimum steps logged, and saved, before the kill."""
ATTEMPTS = 3
"""How often a run may end before it is killed."""
LIMIT = 1800.0
"""Maximum seconds of one command."""
POLL = 0.002
BEGINNING = 8.0
"""Rough estimate of the seconds in which a command starts."""
LONG = 30.0
"""Estimated seconds from which the duration is announced."""
REACHED = 0.25
"""The approximate fraction of the peak matrix-product rate that training reaches."""
NUMBERS, CHECKPOINTS = 5, 5
"""Copies of each weight in a checkpoint (best, average, two moments), and the number of checkpoints written."""


class Failed(Exception):
    """A command failed; the message is its error."""


def check_resume(subject: Subject, directory: Path, folder: Path, progress: Progress) -> Check:
    """Train a few steps in two directories, killing one run by SIGKILL; compare all weights and losses."""
    what = "every weight and the loss of each step of its training, uninterrupted against killed by SIGKILL and resumed"
    try:
        again = replay(subject, directory, folder)
        what = f"{what}, on {again.material.origin}"
        _check_room(subject, again, folder, progress)
        alone, killed = folder / "alone", folder / "killed"
        again.begin(alone)
        _run(again.words(alone, NEVER), folder)
        step = _killed(again, killed, folder)
        _run(again.words(killed, NEVER), folder)
    except DoesNotApply as reason:
        return Check(NAME, what, skipped=str(reason))
    except InputError as error:
        return Check(NAME, what, None, 0.0, f"its training cannot be started: {error}")
    except Failed as error:
        return Check(NAME, what, None, 0.0, f"its training failed: {error}")
    resumed = [line["step"] for line in read_log(killed, "resume")]
    if not resumed:
        return Check(NAME, what, None, 0.0, f"killed after step {step}, it started over instead of resuming")
    value, differs = compare(alone, killed)
    more = {"steps": again.options["steps"], "killed_after": step, "resumed_from": resumed[-1]}
    problem = f"first differs: {differs}" if differs else None
    return Check(NAME, what, value, 0.0, problem, more=more)


def compare(alone: Path, killed: Path) -> tuple[float, str | None]:
    """The largest difference between two finished runs, in losses and last checkpoints, and what differs first.

    A checkpoint holds the weights, the best weights, and the states of the optimizers and random number generators.
    """
    apart: dict[str, float] = {}
    losses, others = _losses(alone), _losses(killed)
    for step in sorted(losses.keys() | others.keys()):
        known = step in losses and step in others
        apart[f"the loss of step {step}"] = abs(losses[step] - others[step]) if known else float("inf")
    (first, _), (second, _) = (newest_checkpoint(run / "checkpoints") for run in (alone, killed))
    if first is None or second is None or first[1]["step"] != second[1]["step"]:
        return float("inf"), "the last checkpoint"
    for name in sorted(first[0].keys() | second[0].keys()):
        known = name in first[0] and name in second[0]
        apart[name] = difference(first[0][name], second[0][name]) if known else float("inf")
    return worst(*apart.values()), next((name for name, value in apart.items() if value != 0), None)


@contextmanager
def _started(words: Sequence[str], folder: Path) -> Iterator[Command]:
    """A command with its own cache, which is killed at the end if it still runs.  Raises Failed for one that lasts."""
    command = Command(words, folder / "errors.txt", alone=True, HEADWAY_CACHE=str(folder / "cache"))
    try:
        yield command
    except subprocess.TimeoutExpired:
        raise Failed(f"it did not end within {duration(LIMIT)}") from None
    finally:
        command.kill()


def _run(words: Sequence[str], folder: Path) -> None:
    """Run a command to its end.  Raises Failed."""
    with _started(words, folder) as command:
        command.wait(LIMIT)
        if command.status != 0:
            raise Failed(command.said)


def _killed(again: Replay, run: Path, folder: Path) -> int:
    """Train until some steps are done and one is saved, then kill; returns the last step.

    Raises DoesNotApply if the run always ended before, and Failed if it failed.
    """
    for _ in range(ATTEMPTS):
        shutil.rmtree(run, ignore_errors=True)
        again.begin(run)
        with _started(again.words(run, AT_ONCE), folder) as command:
            end = time.monotonic() + LIMIT
            while (ended := command.status) is None and not _ready(run):
                if time.monotonic() > end:
                    command.wait(0)
                time.sleep(POLL)
        if ended is None and command.status != 0:
            return max(_losses(run))
        if command.status != 0:
            raise Failed(command.said)
    raise DoesNotApply("it always ended before it could be killed")


def _ready(run: Path) -> bool:
    """Whether enough steps are done for a kill in the middle."""
    saved = (run / "checkpoints").glob("step-*")
    return any(path.name != "step-0" for path in saved) and max(_losses(run), default=0) >= KILLED_AFTER


def _losses(run: Path) -> dict[int, float]:
    """The loss of each step; the later of two lines for one step."""
    return {line["step"]: float(line["loss"]) for line in read_log(run, "step")}


def _check_room(subject: Subject, again: Replay, folder: Path, progress: Progress) -> None:
    """Raise DoesNotApply if there is no space for the checkpoints; announce the duration if it is long."""
    needed = 4 * NUMBERS * CHECKPOINTS * sum(p.numel() for p in subject.one.parameters())
    if shutil.disk_usage(folder).free < needed:
        raise DoesNotApply(f"it needs {size(needed)} in {folder.parent} (set TMPDIR to use another folder)")
    rate = REACHED * product_rate(torch.float32)
    seconds = 3 * BEGINNING + 2 * again.flops / rate + needed / SAVED_IN_A_SECOND
    if seconds > LONG:
        progress.say(f"{NAME}: training it three times may take about {duration(seconds)}")
