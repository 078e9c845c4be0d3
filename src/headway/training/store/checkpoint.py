"""Checkpoints: everything an exact resume needs, committed atomically, without pickle; written in the background."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headway.errors import InputError, RunFailed
from headway.hub.directory import load_model
from headway.hub.safe.weights import FILE as MODEL
from headway.io.atomic_write import flush, new_mode, remove_left_behind, temporary, why_not, write_json
from headway.io.quantities import size
from headway.io.regular_file import sha256
from headway.training.hardware.memory import out_of_memory
from headway.training.ranks import Ranks

MANIFEST, FORMAT = "MANIFEST.json", 1
KEPT = 2
"""How many checkpoints are kept: the newest, and one in case it is lost."""
WEIGHTS = ("model", "best", "average")
"""The kinds of tensors that have a file of their own, each as large as the model."""
ELSEWHERE = "in_saved_model"
"""The key of a manifest: kind of weights -> the names of their tensors and the SHA-256 of these, where the saved model
of a finished run holds them bit for bit and they are not stored a second time (``training.store.cleaning``)."""


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


def save_checkpoint(
    directory: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any], ranks: Ranks | None = None
) -> list[Path]:
    """Commit one checkpoint and remove the oldest beyond ``KEPT``; returns those that could not be removed.

    It is a directory ``step-N``: tensors in ``model.safetensors``, ``best.safetensors``, ``average.safetensors`` and
    ``tensors.safetensors`` (all others), all else in ``state.json``, and last a ``MANIFEST.json`` with the size and
    SHA-256 of each file.  It is written under a temporary name, flushed to disk and renamed, so a directory of that
    name is complete.  ``tensors`` are ``copied``, or sharded over ``ranks``, which then write it together.  Raises
    SaveFailed with the reason; no partial files are left where one process writes.
    """
    place = directory / f"step-{step}"
    new, first = temporary(place), ranks is None or ranks.first
    if ranks is not None:
        (owner,) = ranks.all_reduce_max(os.getpid() if first else 0)
        new = directory / f".step-{step}.{owner:.0f}.tmp"
    try:
        with saving(place, size_of(tensors) if ranks is None else 0):
            if first:
                directory.mkdir(parents=True, exist_ok=True)
                remove_left_behind(directory)
                new.mkdir()
            _write(new, tensors, ranks)
            if first:
                for path in new.iterdir():
                    path.chmod(new_mode())
                    flush(path)
                write_json(new / "state.json", state)
                files = {path.name: _facts(path) for path in sorted(new.iterdir())}
                write_json(new / MANIFEST, {"format": FORMAT, "step": step, "files": files})
                flush(new)
                if place.exists():
                    place.rename(_aside(place))
                new.rename(place)
                flush(place.parent)
    except BaseException:
        if ranks is None:
            shutil.rmtree(new, ignore_errors=True)
        raise
    left = []
    if first:
        remove_left_behind(directory)
        left = remove_older(directory, KEPT)
    if ranks is not None:
        ranks.barrier()
    return left


def _write(new: Path, tensors: dict[str, Tensor], ranks: Ranks | None) -> None:
    """Write the tensors in the directory: each kind in its file, or each rank its shards."""
    if ranks is not None:
        from headway.training.sharding import save_parts

        ranks.barrier()
        save_parts(new, tensors)
        ranks.barrier()
        return
    files: dict[str, dict[str, Tensor]] = {"tensors": {}}
    for name, tensor in tensors.items():
        kind = name.partition(".")[0]
        files.setdefault(kind if kind in WEIGHTS else "tensors", {})[name] = tensor
    for kind, part in files.items():
        save_file(part, new / f"{kind}.safetensors")


def remove_older(directory: Path, count: int = 1) -> list[Path]:
    """Remove all checkpoints but the ``count`` newest; returns those that could not be removed."""
    return [old for old in checkpoints_in(directory)[count:] if not remove_checkpoint(old)]


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


def checkpoints_in(directory: Path) -> list[Path]:
    """The checkpoints of a directory, newest first, whole or not."""
    found = directory.iterdir() if directory.is_dir() else ()
    steps = [(int(match[1]), path) for path in found if (match := re.fullmatch(r"step-(\d+)", path.name))]
    return [path for _, path in sorted(steps, reverse=True)]


def newest_checkpoint(
    directory: Path, model: nn.Module | None = None
) -> tuple[tuple[dict[str, Tensor], dict[str, Any]] | None, list[str]]:
    """Tensors and state of the newest checkpoint that is whole, or None; and what is wrong with each newer one.

    It is found by checking, never by a pointer.  Where the parameters of ``model`` are sharded over ranks, checkpoints
    that were written sharded are read sharded.
    """
    problems: list[str] = []
    for path in checkpoints_in(directory):
        problem = _problem(path)
        if problem is None:
            state = json.loads((path / "state.json").read_text(encoding="utf-8"))
            return (_tensors(path, model), state), problems
        problems.append(f"{path}: {problem}")
    return None, problems


def damaged(directory: Path) -> dict[Path, str | None]:
    """Every checkpoint, newest first, with what is wrong with it, or None."""
    return {path: _problem(path) for path in checkpoints_in(directory)}


def _tensors(path: Path, model: nn.Module | None) -> dict[str, Tensor]:
    if not (path / "tensors.safetensors").exists():
        from headway.training.sharding import load_parts

        return load_parts(path, model)
    manifest = manifest_of(path)
    names = [name for name in manifest["files"] if name.endswith(".safetensors")]
    found = {key: tensor for name in names for key, tensor in load_file(path / name).items()}
    return found | from_saved_model(path, manifest.get(ELSEWHERE, {}))


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
        return _problem_elsewhere(path, manifest.get(ELSEWHERE, {}))
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except OSError as error:
        return f"{Path(error.filename or path).name} cannot be read ({error.strerror or error})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} is damaged"


def from_saved_model(checkpoint: Path, elsewhere: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a checkpoint that the run's saved model holds, by their names in the checkpoint."""
    saved = saved_weights(checkpoint) if elsewhere else {}
    return {
        name: saved[name.removeprefix(f"{kind}.")].detach().clone()
        for kind, facts in elsewhere.items()
        for name in facts["names"]
    }


def _problem_elsewhere(checkpoint: Path, elsewhere: Mapping[str, Any]) -> str | None:
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
    found: dict[str, Any] = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    return found


class Saver:
    """Saves one checkpoint at a time in ``directory``, in its own thread.

    An error is raised by the next call of any method, as SaveFailed; where ``on_error`` is "continue", it is only
    passed to ``warn``, and the next checkpoint is tried.  A model that is sharded over ``ranks`` is saved by all of
    them at once, before training continues.
    """

    def __init__(
        self, directory: Path, warn: Callable[[str], None], on_error: str = "continue", ranks: Ranks | None = None
    ):
        self.directory, self.warn, self.on_error, self.ranks = directory, warn, on_error, ranks
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._seen_room = False
        self.latest: int | None = None
        """the step of the newest checkpoint that was written"""

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Where training ends with an error, finish the checkpoint that is being written."""
        if self._thread is not None and kind is not None and issubclass(kind, Exception):
            self._thread.join()

    def save(self, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Start to save copies of the arguments.  Waits for the checkpoint before it."""
        if self.ranks is not None:
            with out_of_memory(f"while step {step} was saved"):
                save_checkpoint(self.directory, step, tensors, state, self.ranks)
            self.latest = step
            return
        self.wait()
        self._check_room(tensors)
        with out_of_memory(f"while step {step} was saved"):
            own = copied(tensors)
        self._thread = threading.Thread(target=self._write, args=(step, own, state), daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Report an error of the background thread, if there was one, without waiting."""
        error, self._error = self._error, None
        if error is None:
            return
        if not isinstance(error, SaveFailed) or self.on_error == "stop":
            raise error
        self.warn(f"{error}. Training continues without it, and the next one will be tried (--on-save-error)")

    def wait(self) -> None:
        """Wait until nothing is being written, and ``check``."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def _write(self, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        try:
            with out_of_memory(f"while step {step} was saved"):
                left = save_checkpoint(self.directory, step, tensors, state)
        except BaseException as error:
            self._error = error
            return
        self.latest = step
        for path in left:
            self.warn(f"{path}: is no longer needed, but cannot be removed")

    def _check_room(self, tensors: dict[str, Tensor]) -> None:
        """Warn, once, where there is no space for two more checkpoints."""
        if self._seen_room:
            return
        self._seen_room = True
        place = next(folder for folder in (self.directory, *self.directory.parents) if folder.exists())
        free, needed = shutil.disk_usage(place).free, size_of(tensors)
        if free < 2 * needed:
            self.warn(
                f"{place}: only {size(free)} free; a checkpoint needs {size(needed)}, and there are "
                "three while one is written"
            )
