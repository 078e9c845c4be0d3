"""Removing what is not needed to use or to resume a run."""

import contextlib
import shutil
from pathlib import Path

from headway.errors import InputError
from headway.io.atomic_write import remove_left_behind
from headway.training.monitor.progress import Progress
from headway.training.store.checkpoint import damaged, newest, remove_checkpoint, remove_older
from headway.training.store.kept_once import drop_duplicate_weights
from headway.training.store.run_directory import RunDirectory
from headway.training.store.sizes import ADAPTED, MEMBER, SNAPSHOTS, sizes
from headway.training.store.trained_texts import TEXTS


def keep_once(run: RunDirectory, progress: Progress) -> None:
    """Keep only the newest checkpoint of a finished run, without the weights that the saved model has."""
    try:
        if (last := newest(run.checkpoints)) is not None:
            drop_duplicate_weights(last)
            remove_older(run.checkpoints)
    except (OSError, InputError) as error:
        progress.warn(
            f"{run.checkpoints}: unneeded files remain ({error}); run `headway clean {run.path}` to remove them"
        )


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
    remove_left_behind(path)
    places, adapted = path / "checkpoints", path / ADAPTED
    if _is_folder(places):
        remove_left_behind(places)
        if checkpoints or path.name == ADAPTED:  # which is only a starting point
            shutil.rmtree(places)
        else:
            _keep_newest(places, finished=facts.get("finished") is True)
    if checkpoints and (path / TEXTS).is_file():
        (path / TEXTS).unlink()
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
        drop_duplicate_weights(whole)
