"""One model of a comparison: its options, and its training in a separate process."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.errors import InputError, RunFailed
from headway.hub.download import model_name
from headway.tasks.spec import TaskSpec
from headway.training.option_fields import flag
from headway.training.options import MODELS
from headway.training.store.log import read_log

LOOK_EVERY = 0.1
"""Seconds between two measurements of a training's memory."""


@dataclass(frozen=True)
class Candidate:
    """A model to compare: a kind of ``--model``, or a pretrained one."""

    name: str
    options: dict[str, Any]
    """options of ``train`` that make it"""

    @property
    def folder(self) -> str:
        """Its name as a part of a path."""
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in self.name).strip(".-")[-60:] or "model"


def entrants(names: Sequence[str]) -> list[Candidate]:
    """The named models.  Raises InputError for fewer than two, duplicates and unknown models."""
    found = []
    for name in names:
        if name in MODELS:
            found.append(Candidate(name, {"model": name}))
        elif Path(name).is_dir() or "/" in name:
            found.append(Candidate(model_name(name), {"from_model": name}))
        else:
            raise InputError(
                f"--models: there is no model {name!r}; choose from {', '.join(MODELS)}, or give the directory or "
                "hub id of a pretrained one."
            )
    folders = [one.folder for one in found]
    if len(found) < 2 or len(set(folders)) < len(folders):
        raise InputError(f"--models {','.join(names)}: expected two models or more, each named once.")
    return found


def fitting(model: Candidate, task: TaskSpec) -> Candidate:
    """A model as it is named for a task: where there are only Transformers, --model has nothing to say."""
    only = "model" not in task.options and model.options.get("model") == "transformer"
    return replace(model, options={}) if only else model


def trained(words: Sequence[str], place: Path, say: Callable[[str], None]) -> float | None:
    """Train with the real command in a separate process, or resume; returns its peak memory in bytes.

    None if that is unknown.  Raises RunFailed with the command's message, and KeyboardInterrupt if it was stopped, with
    everything saved.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    said = place.with_name(place.name + ".stderr.txt")
    with said.open("w+", encoding="utf-8") as stream:
        command = [sys.executable, "-m", "headway", *words, "--out", str(place), "--quiet"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream)
        try:
            peak = _ended(process)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        stream.seek(0)
        lines = [line for line in stream.read().splitlines() if line.strip()]
    said.unlink()
    if process.returncode == 130:
        raise KeyboardInterrupt
    if process.returncode:
        raise RunFailed(lines[-1].removeprefix("headway: ") if lines else f"it ended with status {process.returncode}")
    for line in lines:
        say(line)
    return peak


def _ended(process: subprocess.Popen) -> float | None:
    """Wait for the end of a process; the highest memory that it had, in bytes, where the system tells.

    Not ``ru_maxrss``: on Linux that is at least what the process had that started it.
    """
    peak = None
    while process.poll() is None:
        peak = peak_memory(process.pid) or peak
        time.sleep(LOOK_EVERY)
    return peak


def peak_memory(pid: int) -> float | None:
    """The highest memory of a process that runs, in bytes; None where the system does not tell (only Linux does)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return 1024.0 * int(found[0]) if found else None


def words_of(inputs: Sequence[str | Path], options: dict[str, Any]) -> list[str]:
    """The command that trains with these options."""
    words = ["train", *map(str, inputs)]
    for name, value in options.items():
        if value is True:
            words.append(f"--{flag(name)}")
        elif value is not None and value is not False:
            words += [f"--{flag(name)}", str(value)]
    return words


def curve(run: Path) -> list[dict[str, float]]:
    """Its evaluations: seconds, tokens and metrics, in order."""
    return read_log(run, "evaluation")
