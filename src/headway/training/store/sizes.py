"""Disk use of a run by purpose, and its snapshots; without torch, so that a page about a run is light."""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
