"""Disk use of a run: how much, what is needed to use or to resume it, and removing the rest."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.errors import InputError
from headway.training.monitor.progress import Progress
from headway.training.store.checkpoint import damaged, newest, remove_checkpoint, remove_older, saving
from headway.training.store.kept_once import bring_back, leave_out
from headway.training.store.run_directory import SNAPSHOTS, RunDirectory

ADAPTED = "adapted"
"""The run inside a run that first trains on the texts without their labels (``--adapt``)."""
MEMBER = re.compile(r"seed-\d+")
"""The runs inside a run with several seeds."""


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


def sizes(path: Path) -> Sizes:
    found = {"use": 0, "resume": 0, "snapshots": 0}
    parts = {"checkpoints": "resume", ADAPTED: "resume", SNAPSHOTS: "snapshots"}
    for file, size in _files(path):
        within = file.relative_to(path).parts[:-1]
        if within and MEMBER.fullmatch(within[0]):
            within = within[1:]
        found[parts.get(within[0] if within else "", "use")] += size
    return Sizes(**found)


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


def keep_once(run: RunDirectory, progress: Progress) -> None:
    """Keep only the newest checkpoint of a finished run, without the weights that the saved model has."""
    try:
        if (last := newest(run.checkpoints)) is not None:
            leave_out(last)
            remove_older(run.checkpoints)
    except (OSError, InputError) as error:
        progress.warn(
            f"{run.checkpoints}: unneeded files remain ({error}); run `headway clean {run.path}` to remove them"
        )


def complete(checkpoints: Path, step: int) -> None:
    """Put all weights back into the checkpoint before the run resumes from it.  Raises SaveFailed."""
    place = checkpoints / f"step-{step}"
    with saving(place):
        bring_back(place)


def clean(path: Path, *, checkpoints: bool = False, snapshots: bool = False) -> int:
    """Remove what is not needed to use or to resume a run; returns the bytes that this frees.

    ``checkpoints`` also removes what only resuming needs, ``snapshots`` also the models of evaluations.  Links are
    neither followed nor removed.  Raises InputError where ``path`` is not a run, or is being trained.
    """
    if path.is_symlink():
        raise InputError(f"{path}: is a link; name the directory itself.")
    if not path.is_dir():
        raise InputError(f"{path}: no such run directory.")
    if RunDirectory(path).read() is None:
        raise InputError(f"{path}: holds no headway.json, so it is not a run; name the directory of a run.")
    runs = [path, *(one for one in sorted(path.iterdir()) if _inner(one))]
    before = sizes(path).total
    with contextlib.ExitStack() as stack:
        for one in runs:
            stack.enter_context(RunDirectory(one).locked(clear=False, advice="try again when it has ended"))
        if checkpoints and not all((one / "config.json").is_file() for one in runs):
            raise InputError(f"{path}: no model is saved there yet; without its checkpoints the run would be lost.")
        try:
            for one in runs:
                _clean(one, checkpoints=checkpoints, snapshots=snapshots)
        except OSError as error:
            raise InputError(f"{error.filename or path}: cannot be removed ({error.strerror or error}).") from None
    return before - sizes(path).total


def _inner(path: Path) -> bool:
    """Whether a directory in a run is itself a run: another seed, or the run of ``--adapt``."""
    named = path.name == ADAPTED or MEMBER.fullmatch(path.name) is not None
    return named and _is_folder(path) and (path / "headway.json").is_file()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _clean(path: Path, *, checkpoints: bool, snapshots: bool) -> None:
    """Clean one run that is locked.  Raises OSError."""
    facts = RunDirectory(path).read() or {}
    for left in path.glob(".*.tmp"):
        if left.is_file() and not left.is_symlink():
            left.unlink()
    places, adapted = path / "checkpoints", path / ADAPTED
    if _is_folder(places):
        for left in places.glob(".step-*.tmp"):
            if _is_folder(left):
                shutil.rmtree(left)
        if checkpoints or path.name == ADAPTED:  # which is only a starting point
            shutil.rmtree(places)
        else:
            _keep_newest(places, finished=facts.get("finished") is True)
    if checkpoints and _is_folder(adapted):
        shutil.rmtree(adapted)
    if snapshots and _is_folder(path / SNAPSHOTS):
        shutil.rmtree(path / SNAPSHOTS)


def _keep_newest(places: Path, *, finished: bool) -> None:
    """Remove every checkpoint but the newest complete one; none where no checkpoint is complete."""
    found = damaged(places)
    whole = next((path for path, problem in found.items() if problem is None), None)
    if whole is None:
        return
    for path in found:
        if path != whole and _is_folder(path):
            remove_checkpoint(path)
    if finished:
        leave_out(whole)
