"""Training that is killed and resumed equals uninterrupted training, bit for bit."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from headway.errors import InputError
from headway.io.quantities import duration, size
from headway.training.hardware.measure import SAVED_IN_A_SECOND
from headway.training.hardware.precision import product_rate
from headway.training.monitor.progress import Progress
from headway.training.store.checkpoint import newest_checkpoint
from headway.training.store.log import read_log
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
LATE = f"it did not end within {duration(LIMIT)}"
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


class Command:
    """``headway`` in a separate process with its own cache."""

    def __init__(self, words: Sequence[str], folder: Path):
        self._said = folder / "said.txt"
        environment = {**os.environ, "HEADWAY_CACHE": str(folder / "cache")}
        with self._said.open("wb") as said:
            quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": said}
            command = [sys.executable, "-P", "-m", "headway", *words]
            self._process = subprocess.Popen(command, **quiet, env=environment, start_new_session=True)

    @property
    def status(self) -> int | None:
        """Its exit status, negative for the signal that ended it; None while it runs."""
        return self._process.poll()

    @property
    def said(self) -> str:
        """The last line of standard error."""
        lines = self._said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("headway: ") if lines else "no message"

    def wait(self) -> None:
        """Wait for it to end.  Raises Failed if that takes too long."""
        try:
            self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            raise Failed(LATE) from None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


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
    one, other = _losses(alone), _losses(killed)
    for step in sorted(one.keys() | other.keys()):
        known = step in one and step in other
        apart[f"the loss of step {step}"] = abs(one[step] - other[step]) if known else float("inf")
    (first, _), (second, _) = (newest_checkpoint(run / "checkpoints") for run in (alone, killed))
    if first is None or second is None or first[1]["step"] != second[1]["step"]:
        return float("inf"), "the last checkpoint"
    for name in sorted(first[0].keys() | second[0].keys()):
        known = name in first[0] and name in second[0]
        apart[name] = difference(first[0][name], second[0][name]) if known else float("inf")
    return worst(*apart.values()), next((name for name, value in apart.items() if value != 0), None)


def _killed(again: Replay, run: Path, folder: Path) -> int:
    """Train until some steps are done and one is saved, then kill; returns the last step.

    Raises DoesNotApply if the run always ended before, and Failed if it failed.
    """
    for _ in range(ATTEMPTS):
        shutil.rmtree(run, ignore_errors=True)
        again.begin(run)
        command = Command(again.words(run, AT_ONCE), folder)
        try:
            began = time.monotonic()
            while (ended := command.status) is None and not _ready(run):
                if time.monotonic() - began > LIMIT:
                    raise Failed(LATE)
                time.sleep(POLL)
        finally:
            command.kill()
        if ended is None and command.status != 0:
            return max(_losses(run))
        if command.status != 0:
            raise Failed(command.said)
    raise DoesNotApply("it always ended before it could be killed")


def _ready(run: Path) -> bool:
    """Whether enough steps are done for a kill in the middle."""
    saved = (run / "checkpoints").glob("step-*")
    return any(path.name != "step-0" for path in saved) and max(_losses(run), default=0) >= KILLED_AFTER


def _run(words: Sequence[str], folder: Path) -> None:
    """Run a command to its end.  Raises Failed."""
    command = Command(words, folder)
    try:
        command.wait()
        if command.status != 0:
            raise Failed(command.said)
    finally:
        command.kill()


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
