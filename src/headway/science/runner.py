"""The runner of trials under ``compare``, ``tune`` and ``scale``, and how they are resumed.

Each trial is a run in a directory of its own, which a later command finds complete.  What was asked is kept beside
them, so that only the same command resumes.  A trial is trained in this process, or by the real command in another
process where its memory is to be known.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headway.errors import InputError, RunFailed
from headway.training.monitor.progress import Progress
from headway.training.option_fields import flag

LOOK_EVERY = 0.1
"""Seconds between two measurements of a training's memory."""
CALLED = {"fingerprint": "text"}
"""What a person calls an entry of a record, where that is another word."""


class Within(Progress):
    """Progress of one trial among many: its steps and its warnings, not what it decided."""

    def __init__(self, outer: Progress, name: str):
        self.outer, self.name = outer, name

    def say(self, text: str) -> None:
        """Nothing: the runner says what there is to say."""

    def warn(self, text: str) -> None:
        self.outer.warn(f"{self.name}: {text}")

    def step(self, share: float, step: int, loss: float, seconds_left: float | None, tokens_per_second: float) -> None:
        self.outer.step(share, step, loss, seconds_left, tokens_per_second)

    def close(self) -> None:
        self.outer.close()


def kept(path: Path, what: str) -> dict[str, Any] | None:
    """What an earlier command recorded in a file of its directory, or None.

    Raises InputError for a record that cannot be read, and for a directory of other files; ``what`` is made there.
    """
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        check_free(path.parent, what)
        return None
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); name another directory with --out.") from None


def check_free(out: Path, what: str) -> None:
    """Raise InputError where results would come to stand among other files, or over them."""
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: this directory holds other files and no {what}; name a new one with --out.")


def check_same(out: Path, what: str, before: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raise InputError where something else is asked than what was recorded; ``what`` ends in "other" or "another"."""
    if others := sorted(CALLED.get(name, name) for name, value in asked.items() if before.get(name) != value):
        raise InputError(
            f"{out}: holds a {what} {', '.join(others)}; give the same to resume it, or use another --out."
        )


def words_of(inputs: Sequence[str | Path], options: dict[str, Any]) -> list[str]:
    """The command that trains with these options."""
    words = ["train", *map(str, inputs)]
    for name, value in options.items():
        if value is True:
            words.append(f"--{flag(name)}")
        elif value is not None and value is not False:
            words += [f"--{flag(name)}", str(value)]
    return words


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
