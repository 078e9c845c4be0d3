"""A saved model written as a directory for other programs, and the proof that they read the same model."""

import contextlib
import os
import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import nn

from headway import __version__
from headway.errors import InputError
from headway.hub.directory import has_family, load_model, model_config, save_model
from headway.hub.download import locate
from headway.hub.preprocessor import FILE as PREPROCESSOR
from headway.io.atomic_write import flush, write_json
from headway.io.digest import sha256
from headway.io.strict_json import read_object
from headway.models.baselines import BaselineConfig
from headway.tasks.registry import NAMES, room
from headway.tasks.task import Pipeline
from headway.text.tokenizer import Tokenizer
from headway.training.store.facts import check_files, read_facts
from headway.training.store.run_directory import best_member
from headway.workflows.export.parity import Parity, compare
from headway.workflows.load import pipeline_of

RECORD = "headway_export.json"
"""What was written, from what, and how it was checked.  By it an earlier export is known, which may be replaced."""


@dataclass(frozen=True)
class Export:
    """An export that was made, or (``parity.checked`` and not ``parity.passed``) one that was not left there."""

    out: Path
    task: str
    parity: Parity
    member: str | None = None
    """of a run with several seeds, the one that was written: its classifiers answer together, a directory holds one"""

    @property
    def made(self) -> bool:
        """Whether the directory is there: a model that differs in ``transformers`` is not left behind."""
        return self.parity.passed or not self.parity.checked


def export(source: str | Path, out: str | Path, *, allow_pickle: bool = False) -> Export:
    """Write a run, a Hugging Face directory or a hub id as a Hugging Face directory, and compare it as others read it.

    ``out`` appears whole, or not at all when the answers or the ids differ.  Checkpoints, log and report stay behind.
    ``allow_pickle`` reads weights of ``torch.save`` where there are no safetensors; safetensors are written.
    Raises InputError for a source that cannot be read, and for an ``out`` that holds anything but an earlier export.
    """
    place = Path(out)
    directory = locate(source, allow_pickle=allow_pickle).path
    check_free(place, directory)
    check_files(directory, read_facts(directory))
    model = load_model(directory, allow_pickle=allow_pickle)
    if isinstance(config := model_config(model), BaselineConfig):
        raise InputError(f"{source}: is a baseline ({config.kind}), which no other program reads.")
    if not has_family(model):
        raise InputError(f"{source}: is of parts that no Hugging Face family has, so no other program reads it.")
    tokenizer = None
    if getattr(model, "patches", None) is None:
        tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
    task = task_of(model)
    beside = place.absolute().with_name(f".{place.absolute().name}.{os.getpid()}.tmp")
    try:
        with _as_input_error(place):
            beside.mkdir(parents=True)
        with _as_input_error(place):
            _write(model, tokenizer, directory, beside)
        parity = compare(model, tokenizer, beside, _pipeline(model, directory))
        found = Export(place, task, parity, best_member(directory))
        if found.made:
            with _as_input_error(place):
                write_json(beside / RECORD, _record(str(source), found, beside))
                _put_in_place(beside, place.absolute())
        return found
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def check_free(out: Path, source: Path) -> None:
    """Raise InputError unless ``out`` is missing, empty, or an earlier export with nothing else in it."""
    with _as_input_error(out):
        if not os.path.lexists(out):
            return
        if out.is_symlink() or not out.is_dir():
            raise InputError(f"{out}: is not a directory; name another with --out.")
        if source.exists() and out.samefile(source):
            raise InputError(f"{out}: is the model itself; name another directory with --out.")
        names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_symlink() or not path.is_dir()}
        if not names:
            return
        written = read_object(out / RECORD).get("files") if RECORD in names else None
        foreign = sorted(names - {RECORD, *(written if isinstance(written, dict) else ())})
        if foreign:
            raise InputError(
                f"{out}: holds {foreign[0]}, which no export left there, so nothing is written over it; "
                "name another directory with --out."
            )


def task_of(model: nn.Module) -> str:
    """What a model does, by its wiring and its head; of one that answers no task, what it reads."""
    return next((name for name in NAMES if room(name).claims(model)), "images")


def _pipeline(model: nn.Module, directory: Path) -> Pipeline | None:
    """What answers with the model here; None where it answers no task, or has not all that answering takes."""
    try:
        return pipeline_of(model, directory, alone=True)
    except InputError:
        return None


def _write(model: nn.Module, tokenizer: Tokenizer | None, source: Path, to: Path) -> None:
    try:
        save_model(model, to)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{source}: cannot be written for transformers: {error}") from None
    if tokenizer is not None:
        tokenizer.save(to)
    if (source / PREPROCESSOR).is_file():
        write_json(to / PREPROCESSOR, read_object(source / PREPROCESSOR))


def _record(source: str, found: Export, directory: Path) -> dict[str, Any]:
    """What ``RECORD`` says."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        "headway": __version__,
        "source": source,
        "task": found.task,
        "checked": found.parity.checked,
        "max_difference": found.parity.max_difference,
        "tokens_equal": found.parity.tokens_equal,
        "versions": {
            "python": platform.python_version(),
            "torch": version("torch"),
            "transformers": found.parity.version,
        },
        "files": {path.relative_to(directory).as_posix(): sha256(path) for path in files},
    }


def _put_in_place(beside: Path, out: Path) -> None:
    """Rename the new directory to ``out``; one that is there is out of the way first, and back if that fails."""
    if not out.exists():
        beside.rename(out)
    else:
        old = beside.with_suffix(".old")
        out.rename(old)
        try:
            beside.rename(out)
        except BaseException:
            old.rename(out)
            raise
        shutil.rmtree(old, ignore_errors=True)
    flush(out.parent)


@contextlib.contextmanager
def _as_input_error(out: Path):
    """An error of the file system as the message that ``out`` cannot be written."""
    try:
        yield
    except (InputError, OSError) as error:
        cause = error.__cause__ if isinstance(error, InputError) else error  # a model says where it was to be written
        if not isinstance(cause, OSError):
            raise
        reason = cause.strerror or str(cause)
        raise InputError(f"{out}: cannot be written ({reason}); name another directory with --out.") from None
