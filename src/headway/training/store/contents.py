"""What lies in a run directory, read without torch and without trusting it: the log, disk use, hashes of texts."""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from headway.errors import InputError
from headway.io.atomic_write import write_whole

ADAPTED = "adapted"
"""The run inside a run that first trains on the texts without their labels (``--adapt``)."""
MEMBER = re.compile(r"seed-\d+")
"""The runs inside a run with several seeds."""
MOST_FACTS = 64 * 2**20
"""Bytes of headway.json, which holds the metrics of each class."""
SNAPSHOTS = "snapshots"
"""Where ``--snapshots`` keeps the models of evaluations."""
SNAPSHOT = re.compile(r"step-(\d{1,15})")


@dataclass(frozen=True)
class Sizes:
    """Bytes of a run on disk, by purpose."""

    use: int
    """the model and the records of the run"""
    resume: int
    """the newest checkpoint, and the model that the run starts from where that is kept too"""
    snapshots: int
    """models of evaluations (``--snapshots``)"""

    @property
    def total(self) -> int:
        return self.use + self.resume + self.snapshots


@dataclass(frozen=True)
class Snapshot:
    """A model of an evaluation: its ``name`` is its path within the run."""

    name: str
    step: int
    size: int
    """bytes"""


def sizes(path: Path) -> Sizes:
    found = {"use": 0, "resume": 0, "snapshots": 0}
    parts = {"checkpoints": "resume", ADAPTED: "resume", "trained_texts": "resume", SNAPSHOTS: "snapshots"}
    for file, size in _files(path):
        within = file.relative_to(path).parts[:-1]
        if within and MEMBER.fullmatch(within[0]):
            within = within[1:]
        found[parts.get(within[0] if within else file.name, "use")] += size
    return Sizes(**found)


def snapshots(path: Path) -> list[Snapshot]:
    """The snapshots of a run that are whole, by step; links are not followed."""
    place = path / SNAPSHOTS
    found = []
    with contextlib.suppress(OSError):  # the directory may be removed at any time
        if place.is_symlink():
            return []
        for one in place.iterdir():
            named = SNAPSHOT.fullmatch(one.name)
            whole = named is not None and not one.is_symlink() and (one / "headway.json").is_file()  # written last
            if named is not None and whole:
                size = sum(size for _, size in _files(one))
                found.append(Snapshot(f"{SNAPSHOTS}/{one.name}", int(named[1]), size))
    return sorted(found, key=lambda one: one.step)


def _files(path: Path) -> Iterator[tuple[Path, int]]:
    """The regular files under a directory with their bytes, those with several names once; links are not followed."""
    seen: set[tuple[int, int]] = set()
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            with contextlib.suppress(OSError):  # it may have been removed by now
                status = file.lstat()
                if not file.is_symlink() and (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    yield file, status.st_size


LOG = "log.jsonl"
MOST_BYTES = 64 * 2**20
"""Only this many bytes at the end of a longer log are read: some 400,000 lines."""
LONGEST_LINE = 2**20


def read_log(run: Path, event: str | None = None) -> list[dict[str, Any]]:
    """The lines of a run's log in order, those of one ``event`` if it is named; nothing where there is no log."""
    if not (run / LOG).is_file():
        return []
    found = []
    with (run / LOG).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MOST_BYTES))
        left, begun = MOST_BYTES, size > MOST_BYTES  # in the middle of a line
        while left > 0 and (raw := file.readline(LONGEST_LINE)):
            left -= len(raw)
            whole, begun = not begun and (raw.endswith(b"\n") or len(raw) < LONGEST_LINE), not raw.endswith(b"\n")
            if not whole:
                continue
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict) and event in (None, line.get("event")):
                found.append(line)
    return found


TEXTS, BEFORE = "trained_texts", "before "


def read_texts(run: Path) -> dict[str, np.ndarray]:
    """What the file of a run says, int64 (N,) each; nothing without one.  Raises InputError for a damaged one."""
    path = run / TEXTS
    try:
        return load(path.read_bytes()) if path.is_file() else {}
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); restore it, or remove it to go on without it.") from None


def known_texts(run: Path) -> dict[str, np.ndarray]:
    """By task, the texts that a run and the runs before it were trained on."""
    by_task: dict[str, np.ndarray] = {}
    for name, hashes in read_texts(run).items():
        task = name.removeprefix(BEFORE)
        by_task[task] = np.union1d(by_task.get(task, hashes[:0]), hashes)
    return by_task


def write_texts(run: Path, own: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray]) -> None:
    """Write the file of a run atomically: by task the hashes (``data.records.repeats.text_hashes``) of its ``own``
    texts, and after BEFORE those of the runs that it began from, sorted; safetensors, but no file of the model."""
    kept = {**own, **{BEFORE + task: hashes for task, hashes in before.items()}}
    data = save({name: np.unique(hashes) for name, hashes in kept.items()})
    write_whole(run / TEXTS, lambda path: path.write_bytes(data))
