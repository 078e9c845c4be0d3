"""``headway`` in a separate process: as ``compare`` trains, to know the memory, and ``verify``, to kill it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headway.errors import RunFailed
from headway.training.option_fields import flag

LOOK_EVERY = 0.1
"""Seconds between two measurements of a training's memory."""


def words_of(inputs: Sequence[str | Path], options: dict[str, Any]) -> list[str]:
    """The command that trains with these options."""
    words = ["train", *map(str, inputs)]
    for name, value in options.items():
        if value is True:
            words.append(f"--{flag(name)}")
        elif value is not None and value is not False:
            words += [f"--{flag(name)}", str(value)]
    return words


class Command:
    """A command that runs.  ``errors`` is the file of its standard error; ``alone``: signals of the terminal are not
    for it."""

    def __init__(self, words: Sequence[str], errors: Path, *, alone: bool = False, **environment: str):
        self._errors = errors
        with errors.open("wb") as stderr:
            quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": stderr}
            command = [sys.executable, "-P", "-m", "headway", *words]
            environment = {**os.environ, **environment}
            self.process = subprocess.Popen(command, **quiet, env=environment, start_new_session=alone)

    @property
    def status(self) -> int | None:
        """Its exit status, negative for the signal that ended it; None while it runs."""
        return self.process.poll()

    @property
    def lines(self) -> list[str]:
        """What it wrote to standard error."""
        text = self._errors.read_text(encoding="utf-8", errors="replace")
        return [line for line in text.splitlines() if line.strip()]

    @property
    def said(self) -> str:
        """The last line of standard error."""
        return self.lines[-1].removeprefix("headway: ") if self.lines else "no message"

    def wait(self, limit: float) -> None:
        """Wait for it to end.  Raises subprocess.TimeoutExpired after ``limit`` seconds."""
        self.process.wait(limit)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def trained(words: Sequence[str], place: Path, say: Callable[[str], None]) -> float | None:
    """Train with the real command in a separate process, or resume; returns its peak memory in bytes.

    None if that is unknown.  Raises RunFailed with the command's message, and KeyboardInterrupt if it was stopped, with
    everything saved.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    errors = place.with_name(place.name + ".stderr.txt")
    command = Command([*words, "--out", str(place), "--quiet"], errors)
    try:
        peak = peak_until_end(command.process)
    except BaseException:
        command.process.terminate()
        command.process.wait()
        raise
    lines, status = command.lines, command.status
    errors.unlink()
    if status == 130:
        raise KeyboardInterrupt
    if status:
        raise RunFailed(lines[-1].removeprefix("headway: ") if lines else f"it ended with status {status}")
    for line in lines:
        say(line)
    return peak


def peak_until_end(process: subprocess.Popen) -> float | None:
    """Wait for the end of a process; the highest memory that it had, in bytes, where the system tells (Linux does).

    Not ``ru_maxrss``: on Linux that is at least what the process had that started it.
    """
    peak = None
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
            peak = max((1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), default=peak)
        except OSError:
            pass
        time.sleep(LOOK_EVERY)
    return peak
