"""Write a saved model for another program, and check that its users read the same model.

What is particular to a format is in its folder (``headway.formats``).
"""

import contextlib
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn

from headway import __version__
from headway.errors import InputError
from headway.formats.exports import FOLDER, place_of
from headway.formats.hf.export import check_base, check_push
from headway.formats.hf.export import push as push_directory
from headway.formats.hf.loaders import ExternalLoader
from headway.formats.parity import Parity
from headway.formats.registry import FLOAT32, FORMATS, format_named
from headway.formats.subject import Subject, refusals
from headway.hub.adapters.locate import locate_model
from headway.hub.directory import load_model, model_config
from headway.hub.fingerprint import RECORD, full_fingerprint
from headway.hub.sentence_transformers import limit_sequences
from headway.io.atomic_write import put_in_place, staged_directory, why_not, write_json, write_whole
from headway.io.regular_file import sha256
from headway.io.strict_json import read_object
from headway.models.heads import Gives
from headway.models.wirings import wiring_name
from headway.nn.global_state import isolated
from headway.tasks.registry import NAMES, task_named, with_head
from headway.text.tokenizer import Tokenizer
from headway.training.store.facts import check_files, read_facts
from headway.training.store.run_directory import best_member
from headway.workflows.load import pipeline_of, task_of
from headway.workflows.model_card import FILE as CARD
from headway.workflows.model_card import card


@dataclass(frozen=True)
class Export:
    """An export that was written, or (``parity.checked`` and not ``parity.passed``) one that was removed."""

    out: Path
    task: str
    parity: Parity
    format: str = "hf"
    precision: str = FLOAT32
    member: str | None = None
    """for a run with several seeds, the member that was written, since a directory holds one model"""
    address: str | None = None
    """of the repository that it was pushed to"""

    @property
    def made(self) -> bool:
        """Whether the directory exists: an export that differs from the model is removed."""
        return self.parity.passed or not self.parity.checked

    @property
    def problem(self) -> str:
        """Why it was removed; empty for one that was made."""
        return "" if self.made else f"{self.parity.problem}; nothing was left in {self.out}."

    @property
    def result(self) -> dict[str, Any]:
        """What ``headway export --json`` prints, but for the seconds."""
        parity = self.parity
        here, there = parity.seconds or (None, None)
        member = self.member if self.made else None
        return {
            "task": self.task,
            "out": str(self.out) if self.made else None,
            "target": self.format,
            "precision": self.precision,
            "max_difference": parity.max_difference,
            "checked": parity.checked,
            "tokens_equal": parity.tokens_equal,
            "agreement": None if parity.agreement is None else parity.agreement[0] / parity.agreement[1],
            "door": parity.door,
            "seconds_there": there,
            "seconds_here": here,
            **({} if self.address is None else {"address": self.address}),
            **({} if not member else {"member": member}),
        }


@isolated()
def export(
    source: str | Path,
    out: str | Path | None = None,
    *,
    to: str = "hf",
    precision: str | None = None,
    allow_pickle: bool = False,
    push: str | None = None,
    public: bool = False,
    license: str | None = None,
) -> Export:
    """Write a run, a Hugging Face directory or a hub id for another program, and compare it as its users read it.

    ``to`` is one of ``formats.registry.FORMATS``, and ``precision`` one of its precisions.  ``out``, by default
    ``default_out``, appears complete, or not at all if the answers or the ids differ.  ``allow_pickle`` reads weights
    of ``torch.save`` if there are no safetensors.

    ``push`` uploads an export for transformers or PEFT to this repository of the hub, OWNER/NAME, if its comparison
    passed; a new one is private unless ``public``.  ``license`` is named in its model card.

    Raises InputError for a source that cannot be read, a model that the format cannot express, a
    library that is missing, and for an ``out`` that holds anything but an earlier export.
    """
    format = format_named(to)
    precision = precision or format.precisions[0]
    place, writer = Path(out or default_out(str(source), to, precision)), format.module("export")
    format.check(precision)
    if push is not None:
        check_push(push, to)
    directory = locate_model(source, allow_pickle=allow_pickle).path
    check_free(place, directory)
    subject = _subject(directory, allow_pickle)
    problem = writer.problem(subject)
    if problem is None and format.answers and subject.pipe is None:
        problem = f"Headway cannot answer with it, so there is nothing to compare an export with ({subject.no_pipe})"
    if problem is not None:
        raise InputError(f"{directory}: {problem}. {_instead(subject)}")
    facts, member = read_facts(directory) or {}, best_member(directory)
    if member is not None:  # the figures of what is written; without them, none
        own = read_facts(directory / member) or {**facts, "metrics": {}, "verdict": None}
        facts = {**own, "ensemble": {"members": len(facts["members"]), "metrics": facts["metrics"]}}
    if push is not None and format.lora:
        check_base(push, facts["base"]["path"])
    with _as_input_error(place), staged_directory(place.absolute()) as staged:
        writer.write(subject, staged, precision)
        parity = writer.compare(subject, staged, precision)
        task = task_of(subject.model) or with_head("text", wiring_name(subject.model), Gives.VOCABULARY) or "images"
        exported = Export(place, task, parity, to, precision, member)
        if exported.made:
            if format.card and task in NAMES:
                _write_card(subject, facts, exported, staged, push or place.absolute().name, license)
            write_json(staged / RECORD, _record(str(source), full_fingerprint(directory), exported, staged))
            put_in_place(staged, place.absolute())
    if push is None or not exported.made:
        return exported
    if not parity.passed:
        raise InputError(
            f"--push {push}: {parity.problem}, so the export was not compared and nothing was pushed; pip install "
            f"--upgrade {parity.needs}, then run this command again. The export is in {place}."
        )
    return replace(exported, address=push_directory(place, push, public=public))


def default_out(run: str, to: str, precision: str | None = None) -> Path:
    """The default directory of an export: in the run, where engines look for it; for a hub id, exports/NAME-TARGET."""
    place = place_of(Path(run), to, precision or FORMATS[to].precisions[0])
    if Path(run).is_dir():
        return place
    return Path(FOLDER) / f"{Path(run.partition('@')[0]).name or 'model'}-{place.name}"


def _write_card(
    subject: Subject, facts: dict[str, Any], exported: Export, directory: Path, place: str, license: str | None
) -> None:
    """README.md: made from headway.json, else that of the source, if it has one."""
    earlier = subject.directory / CARD
    if not facts and earlier.is_file() and license is None:
        text = earlier.read_text(encoding="utf-8", errors="replace")
    else:
        text = card(subject, facts, exported.task, exported.parity, place, format=exported.format, license=license)
    write_whole(directory / CARD, lambda path: path.write_text(text, encoding="utf-8"))


def _subject(directory: Path, allow_pickle: bool) -> Subject:
    """The model in a directory, with its tokenizer and its pipeline."""
    check_files(directory, read_facts(directory))
    model = load_model(directory, allow_pickle=allow_pickle)
    pipe, reason = None, ""  # of a model that has no task, or lacks files that the pipeline needs
    try:
        pipe = pipeline_of(model, directory, alone=True)
    except InputError as error:
        reason = str(error).removesuffix(".")
    tokenizer = getattr(pipe, "tokenizer", None)
    if pipe is None and getattr(model, "patches", None) is None:
        tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
    if length := getattr(pipe, "max_length", None):
        limit_sequences(model, length)
    return Subject(model, tokenizer, pipe, directory, reason, _external_loader)


def _external_loader(pipe: Any, model: nn.Module, architecture: str) -> ExternalLoader | None:
    return task_named(pipe.task).external_loader(pipe, model, architecture)


def check_free(out: Path, source: Path) -> None:
    """Raise InputError unless ``out`` is missing, empty, or an earlier export with nothing else in it."""
    with _as_input_error(out):
        if not os.path.lexists(out):
            return
        if out.is_symlink() or not out.is_dir():
            what = "a symbolic link" if out.is_symlink() else "not a directory"
            raise InputError(f"{out}: this is {what}; name another directory with --out.")
        if source.exists() and out.samefile(source):
            raise InputError(f"{out}: this is the model itself; name another directory with --out.")
        if Path.cwd().is_relative_to(out.resolve()):  # which is replaced, and the shell would stay in the old one
            raise InputError(f"{out}: this is the working directory; name a directory in it with --out.")
        names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_symlink() or not path.is_dir()}
        written = read_object(out / RECORD).get("files") if RECORD in names else None
        if foreign := sorted(names - {RECORD, *(written if isinstance(written, dict) else ())}):
            raise InputError(
                f"{out}: it holds {foreign[0]}, which is not from an export, so nothing was overwritten; "
                "name another directory with --out."
            )


def _instead(subject: Subject) -> str:
    """What to do with a model that a format refuses, as a sentence."""
    refused = refusals(subject.model, subject.tokenizer, subject.pipe)
    possible = [
        name for name, reason in refused.items() if reason is None and (subject.pipe or not FORMATS[name].answers)
    ]
    return f"This model can be exported to {', '.join(possible)}." if possible else "No target takes this model."


def _record(source: str, model: str, exported: Export, directory: Path) -> dict[str, Any]:
    """The content of ``RECORD``."""
    files, parity = sorted(path for path in directory.rglob("*") if path.is_file()), exported.parity
    return {
        "headway": __version__,
        "source": source,
        "model": model,
        "target": exported.format,
        "precision": exported.precision,
        "task": exported.task,
        "checked": parity.checked,
        "max_difference": parity.max_difference,
        "tokens_equal": parity.tokens_equal,
        "versions": {
            "python": platform.python_version(),
            "torch": version("torch"),
            parity.reader: parity.version,
        },
        "files": {path.relative_to(directory).as_posix(): sha256(path) for path in files},
    }


@contextlib.contextmanager
def _as_input_error(out: Path) -> Iterator[None]:
    """An error of the file system as the message that ``out`` cannot be written."""
    try:
        yield
    except (InputError, OSError) as error:
        cause = error.__cause__ if isinstance(error, InputError) else error  # which names the path
        if not isinstance(cause, OSError | SafetensorError):
            raise
        raise InputError(
            f"{out}: cannot be written {why_not(out, cause)}; name another directory with --out."
        ) from None
