"""Removing what is not needed to use or to resume a run: a checkpoint omits weights that the saved model holds."""

import contextlib
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from headway.errors import InputError
from headway.io.atomic_write import remove_left_behind, write_json, write_whole
from headway.io.regular_file import sha256
from headway.training.progress import Progress
from headway.training.store.checkpoint import (
    ELSEWHERE,
    MANIFEST,
    bytes_of,
    checkpoints_in,
    damaged,
    digest_of,
    from_saved_model,
    manifest_of,
    remove_checkpoint,
    remove_older,
    saved_weights,
)
from headway.training.store.contents import ADAPTED, MEMBER, SNAPSHOTS, TEXTS, sizes
from headway.training.store.run_directory import RunDirectory


def keep_once(run: RunDirectory, progress: Progress) -> None:
    """Keep only the newest checkpoint of a finished run, without the weights that the saved model has."""
    try:
        for last in checkpoints_in(run.checkpoints)[:1]:
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
    inner = [one for one in sorted(path.iterdir()) if one.name == ADAPTED or MEMBER.fullmatch(one.name)]
    runs = [path, *(one for one in inner if _is_folder(one) and (one / "headway.json").is_file())]
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


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _clean(path: Path, *, checkpoints: bool, snapshots: bool) -> None:
    """Clean one run that is locked.  Raises OSError."""
    facts = RunDirectory(path).read() or {}
    remove_left_behind(path)
    places = path / "checkpoints"
    unneeded = {path / ADAPTED: checkpoints, path / SNAPSHOTS: snapshots}
    unneeded[places] = checkpoints or path.name == ADAPTED  # which is only a starting point
    if _is_folder(places):
        remove_left_behind(places)
        if not unneeded[places]:
            _keep_newest(places, finished=facts.get("finished") is True)
    for place in (place for place, remove in unneeded.items() if remove and _is_folder(place)):
        shutil.rmtree(place)
    if checkpoints and (path / TEXTS).is_file():
        (path / TEXTS).unlink()


def _keep_newest(places: Path, *, finished: bool) -> None:
    """Remove every checkpoint but the newest complete one; none where no checkpoint is complete."""
    found = damaged(places)
    whole = next((path for path, problem in found.items() if problem is None), None)
    for path in found if whole is not None else ():
        if path != whole and _is_folder(path):
            remove_checkpoint(path)
    if finished and whole is not None:
        drop_duplicate_weights(whole)


def drop_duplicate_weights(checkpoint: Path) -> None:
    """Remove from a checkpoint the weights that the run's saved model holds bit for bit.

    The checkpoint is complete at every moment: its manifest is replaced first, then unlisted files are removed.
    """
    manifest = manifest_of(checkpoint)
    kinds = [kind for kind in ("best", "average", "model") if f"{kind}.safetensors" in manifest["files"]]
    saved = saved_weights(checkpoint) if kinds else {}
    left, elsewhere = dict(manifest["files"]), dict(manifest.get(ELSEWHERE, {}))
    for kind in kinds:
        tensors = load_file(checkpoint / f"{kind}.safetensors")
        own = {name: saved.get(name.removeprefix(f"{kind}.")) for name in tensors}
        if tensors and all(_same(tensor, own[name]) for name, tensor in tensors.items()):
            elsewhere[kind] = {"names": sorted(tensors), "sha256": digest_of(sorted(tensors.items()))}
            del left[f"{kind}.safetensors"]
    if len(left) < len(manifest["files"]):
        write_json(checkpoint / MANIFEST, {**manifest, "files": left, ELSEWHERE: elsewhere})
    for path in checkpoint.glob("*.safetensors"):
        if path.name not in left:
            path.unlink()


def restore_weights(checkpoint: Path) -> None:
    """Write back into a checkpoint what ``drop_duplicate_weights`` removed.  Raises OSError where the disk is full."""
    manifest = manifest_of(checkpoint)
    if not (elsewhere := manifest.get(ELSEWHERE)):
        return
    files = dict(manifest["files"])
    for kind in elsewhere:
        tensors = from_saved_model(checkpoint, {kind: elsewhere[kind]})
        place = checkpoint / f"{kind}.safetensors"
        write_whole(place, lambda temporary, tensors=tensors: save_file(tensors, temporary))  # type: ignore[misc]
        files[place.name] = {"bytes": place.stat().st_size, "sha256": sha256(place)}
    whole = {key: value for key, value in manifest.items() if key != ELSEWHERE}
    write_json(checkpoint / MANIFEST, {**whole, "files": files})


def _same(one: Tensor, other: Tensor | None) -> bool:
    """Whether two tensors are the same bit for bit."""
    if other is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool((bytes_of(one) == bytes_of(other)).all())
