"""Checkpoints: everything an exact resume needs, committed atomically, without pickle.

A checkpoint is a directory ``step-N``: tensors in ``model.safetensors``, ``best.safetensors``, ``average.safetensors``
and, all others, ``tensors.safetensors``; all else in ``state.json``, and last a ``MANIFEST.json`` with the size and
SHA-256 of each file.  It is written under a temporary name, flushed to disk and renamed, so a directory of that name
is complete; the newest one is found by checking, never by a pointer.  Weights that the saved model of a finished run
holds bit for bit are not stored a second time (``training.store.cleaning``): the manifest names them under ELSEWHERE
with a SHA-256 of their values, by which they are checked when they are read from the saved model.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from headway.errors import InputError, RunFailed
from headway.hub.directory import load_model
from headway.hub.safe.weights import FILE as MODEL
from headway.io.atomic_write import flush, new_mode, remove_left_behind, temporary, why_not, write_json
from headway.io.digest import sha256
from headway.models.own import OwnConfig
from headway.training.distributed.ranks import Ranks

FORMAT = 1
KEPT = 2
"""How many checkpoints are kept: the newest, and one in case it is lost."""
WEIGHTS = ("model", "best", "average")
"""The kinds of tensors that have a file of their own, each as large as the model."""
ELSEWHERE = "in_saved_model"
"""The key of a manifest: kind of weights -> the names of their tensors and the SHA-256 of these."""


class SaveFailed(RunFailed):
    """Something could not be written; what was there before is as it was."""


@contextlib.contextmanager
def saving(place: Path, needed: int = 0) -> Iterator[None]:
    """Raise SaveFailed, with the space that is ``needed`` and free in bytes, where writing ``place`` fails."""
    try:
        yield
    except (OSError, SafetensorError, InputError) as error:
        why = error.__cause__ if isinstance(error, InputError) else error  # ``hub`` says it to whoever exports
        if not isinstance(why, OSError | SafetensorError):
            raise
        raise SaveFailed(f"{place}: cannot be saved {why_not(place, why, needed)}") from None


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies of the tensors, which later changes do not affect."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def save_checkpoint(directory: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> list[Path]:
    """Commit one checkpoint and remove the oldest beyond ``KEPT``; returns those that could not be removed.

    ``tensors`` are ``copied``.  Raises SaveFailed with the reason, and then leaves no partial files.
    """
    place = directory / f"step-{step}"
    new = temporary(place)
    try:
        with saving(place, size_of(tensors)):
            directory.mkdir(parents=True, exist_ok=True)
            remove_left_behind(directory)
            new.mkdir()
            for name, part in _files(tensors).items():
                save_file(part, new / name)
                (new / name).chmod(new_mode())
                flush(new / name)
            _commit(new, place, step, state)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    remove_left_behind(directory)
    return remove_older(directory, KEPT)


def remove_older(directory: Path, count: int = 1) -> list[Path]:
    """Remove all checkpoints but the ``count`` newest; returns those that could not be removed."""
    return [old for _, old in list(_found(directory))[count:] if not remove_checkpoint(old)]


def _files(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Tensors by the name of the file that holds them."""
    files: dict[str, dict[str, Tensor]] = {"tensors.safetensors": {}}
    for name, tensor in tensors.items():
        kind = name.partition(".")[0]
        files.setdefault(f"{kind if kind in WEIGHTS else 'tensors'}.safetensors", {})[name] = tensor
    return files


def size_of(tensors: dict[str, Tensor]) -> int:
    """Bytes of a checkpoint, approximately."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def _aside(place: Path) -> Path:
    """The name that a checkpoint gets while it is being removed."""
    return place.with_name(f".{place.name}.{os.getpid()}.old.tmp")


def remove_checkpoint(old: Path) -> bool:
    """Remove a checkpoint, renaming it first so that it is never half a checkpoint; whether that was possible."""
    try:
        aside = _aside(old)
        old.rename(aside)
        shutil.rmtree(aside)
    except OSError:
        return False
    return True


def save_shared(directory: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any], ranks: Ranks) -> None:
    """Commit one checkpoint that all ranks write together, each its parts (``save_parts``); the first rank commits."""
    from headway.training.distributed.sharding import save_parts

    (owner,) = ranks.all_reduce_max(os.getpid() if ranks.first else 0)
    new = directory / f".step-{step}.{owner:.0f}.tmp"
    with saving(directory / f"step-{step}"):
        if ranks.first:
            directory.mkdir(parents=True, exist_ok=True)
            remove_left_behind(directory)
            new.mkdir()
        ranks.barrier()
        save_parts(new, tensors)
        ranks.barrier()
        if ranks.first:
            for path in new.iterdir():
                path.chmod(new_mode())
                flush(path)
            _commit(new, directory / f"step-{step}", step, state)
            remove_older(directory, KEPT)
        ranks.barrier()


def _commit(new: Path, place: Path, step: int, state: dict[str, Any]) -> None:
    """Add the state and the manifest to the tensors, which are on the disk, and rename the directory to its name."""
    write_json(new / "state.json", state)
    files = {path.name: _facts(path) for path in sorted(new.iterdir())}
    write_json(new / "MANIFEST.json", {"format": FORMAT, "step": step, "files": files})
    flush(new)
    if place.exists():
        place.rename(_aside(place))
    new.rename(place)
    flush(place.parent)


def newest_checkpoint(
    directory: Path, model: nn.Module | None = None
) -> tuple[tuple[dict[str, Tensor], dict[str, Any]] | None, list[str]]:
    """Tensors and state of the newest checkpoint that is whole, or None; and what is wrong with each newer one.

    Where the parameters of ``model`` are sharded over ranks, checkpoints that were written sharded are read sharded.
    """
    problems: list[str] = []
    for _, path in _found(directory):
        problem = _problem(path)
        if problem is None:
            state = json.loads((path / "state.json").read_text(encoding="utf-8"))
            return (_tensors(path, model), state), problems
        problems.append(f"{path}: {problem}")
    return None, problems


def newest(directory: Path) -> Path | None:
    """The newest checkpoint, or None."""
    return next((path for _, path in _found(directory)), None)


def damaged(directory: Path) -> dict[Path, str | None]:
    """Every checkpoint, newest first, with what is wrong with it, or None."""
    return {path: _problem(path) for _, path in _found(directory)}


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name: a checkpoint holds no others.

    A task's own model may itself change those that have no gradient.
    """
    own = isinstance(getattr(model, "config", None), OwnConfig)
    return {name: p for name, p in model.named_parameters() if own or p.requires_grad}


def kept(p: Tensor, value: Tensor) -> Tensor:
    """What a checkpoint keeps of a parameter's tensor: only the ``trained_rows``, where it has them."""
    rows = getattr(p, "trained_rows", None)
    return value if rows is None or value.shape != p.shape else value.detach()[rows]


@torch.no_grad()
def put_back(p: Tensor, value: Tensor, place: Tensor | None = None) -> None:
    """Restore a parameter, or another tensor that belongs to it, from what ``kept`` returned."""
    rows, place = getattr(p, "trained_rows", None), p if place is None else place
    if hasattr(place, "device_mesh"):  # sharded over ranks
        from headway.training.distributed.sharding import like

        value = like(place, value)
    if rows is None or value.shape == p.shape:
        place.copy_(value)
    else:
        place[rows] = value.to(place.device)


def optimizer_tensors(model: nn.Module, chosen: list[Optimizer]) -> dict[str, Tensor]:
    """The state of the optimisers as tensors by name: "optimizer.<n>.<parameter>.<what>"."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {
        f"optimizer.{n}.{names[id(p)]}.{what}": kept(p, value)
        for n, optimizer in enumerate(chosen)
        for p, entry in optimizer.state.items()
        for what, value in entry.items()
    }


def restore_optimizers(model: nn.Module, chosen: list[Optimizer], tensors: dict[str, Tensor]) -> None:
    """Restore what ``optimizer_tensors`` returned.  Raises KeyError when a parameter is not known."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            n, rest = key.removeprefix("optimizer.").split(".", 1)
            name, what = rest.rsplit(".", 1)
            p, optimizer = parameters[name], chosen[int(n)]
            if optimizer.defaults.get("fused"):
                value = value.to(p.device)  # the count of steps too: torch's fused optimisers read it on the GPU
            if value.dim():  # where only some rows of a table are trained, the moments of the others are zero
                whole = torch.zeros_like(p, dtype=value.dtype)
                put_back(p, value, whole)
                value = whole
            optimizer.state[p][what] = value


def _tensors(path: Path, model: nn.Module | None) -> dict[str, Tensor]:
    if not (path / "tensors.safetensors").exists():
        from headway.training.distributed.sharding import load_parts

        return load_parts(path, model)
    manifest = manifest_of(path)
    names = [name for name in manifest["files"] if name.endswith(".safetensors")]
    found = {key: tensor for name in names for key, tensor in load_file(path / name).items()}
    return found | from_saved_model(path, manifest.get(ELSEWHERE, {}))


def _found(directory: Path) -> Iterator[tuple[int, Path]]:
    """Checkpoints by step, newest first."""
    if not directory.is_dir():
        return
    steps = [(int(match[1]), path) for path in directory.iterdir() if (match := re.fullmatch(r"step-(\d+)", path.name))]
    yield from sorted(steps, reverse=True)


def _facts(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def _problem(path: Path) -> str | None:
    for file in path.iterdir():
        if not file.is_file():  # reading a pipe would block, reading a device never ends
            return f"{file.name} is not a regular file"
    try:
        manifest = manifest_of(path)
        if manifest["format"] != FORMAT:
            return f"format {manifest['format']}, expected {FORMAT}"
        if path.name != f"step-{manifest['step']}":
            return f"its manifest belongs to step {manifest['step']}"
        if "state.json" not in manifest["files"] or len(manifest["files"]) < 2:
            return "its manifest does not list its files"
        for name, facts in manifest["files"].items():
            if _facts(path / name) != facts:
                return f"{name} differs from its manifest"
        if problem := problem_elsewhere(path, manifest.get(ELSEWHERE, {})):
            return problem
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except OSError as error:
        return f"{Path(error.filename or path).name} cannot be read ({error.strerror or error})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "MANIFEST.json is damaged"
    return None


def from_saved_model(checkpoint: Path, elsewhere: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a checkpoint that the run's saved model holds, by their names in the checkpoint."""
    saved = saved_weights(checkpoint) if elsewhere else {}
    return {
        name: saved[name.removeprefix(f"{kind}.")].detach().clone()
        for kind, facts in elsewhere.items()
        for name in facts["names"]
    }


def problem_elsewhere(checkpoint: Path, elsewhere: Mapping[str, Any]) -> str | None:
    """What is wrong with the tensors that the saved model should hold, or None."""
    try:
        found = from_saved_model(checkpoint, elsewhere)
    except KeyError:
        found = {}
    for kind, facts in elsewhere.items():
        names = sorted(facts["names"])
        if not set(names) <= set(found) or digest_of((name, found[name]) for name in names) != facts["sha256"]:
            return f"its {kind} weights were kept in {checkpoint.parent.parent / MODEL}, which now holds another model"
    return None


def saved_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The parameters of the run's saved model by our names; nothing where it cannot be read."""
    with contextlib.suppress(InputError, OSError):
        return dict(load_model(checkpoint.parent.parent).named_parameters())  # of RUN/checkpoints/step-N
    return {}


def digest_of(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """The SHA-256 of the names and values of tensors."""
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(bytes_of(tensor))
    return digest.hexdigest()


def bytes_of(tensor: Tensor) -> Any:
    """The bytes of a tensor, as a buffer."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def manifest_of(checkpoint: Path) -> dict[str, Any]:
    """The manifest of a checkpoint.  Raises OSError or ValueError."""
    found: dict[str, Any] = json.loads((checkpoint / "MANIFEST.json").read_text(encoding="utf-8"))
    return found
