"""Write a saved model for another program, and check that its users read the same model.

What is particular to a target is in its module (``workflows.export.target``).
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

from headway import __version__
from headway.errors import InputError
from headway.hub.adapters.locate import locate_model
from headway.hub.directory import load_model, model_config
from headway.hub.fingerprint import RECORD, full_fingerprint
from headway.hub.sentence_transformers import limit_sequences
from headway.io.atomic_write import put_in_place, staged_directory, why_not, write_json, write_whole
from headway.io.digest import sha256
from headway.io.strict_json import read_object
from headway.models.heads import Gives
from headway.models.wirings import wiring_name
from headway.nn.global_state import isolated
from headway.tasks.registry import NAMES, with_head
from headway.tasks.task import Pipeline
from headway.text.tokenizer import Tokenizer
from headway.training.store.facts import check_files, read_facts
from headway.training.store.run_directory import best_member
from headway.workflows.export.card import FILE as CARD
from headway.workflows.export.card import card
from headway.workflows.export.parity import Parity
from headway.workflows.export.push import check_base, check_push
from headway.workflows.export.push import push as push_directory
from headway.workflows.export.registry import FLOAT32, TARGETS, target
from headway.workflows.export.target import Subject, refusals
from headway.workflows.load import pipeline_of, task_of


@dataclass(frozen=True)
class Export:
    """An export that was written, or (``parity.checked`` and not ``parity.passed``) one that was removed."""

    out: Path
    task: str
    parity: Parity
    target: str = "hf"
    precision: str = FLOAT32
    member: str | None = None
    """for a run with several seeds, the member that was written, since a directory holds one model"""
    address: str | None = None
    """of the repository that it was pushed to"""

    @property
    def made(self) -> bool:
        """Whether the directory exists: an export that differs from the model is removed."""
        return self.parity.passed or not self.parity.checked


@isolated()
def export(
    source: str | Path,
    out: str | Path,
    *,
    to: str = "hf",
    precision: str | None = None,
    allow_pickle: bool = False,
    push: str | None = None,
    public: bool = False,
    license: str | None = None,
) -> Export:
    """Write a run, a Hugging Face directory or a hub id for another program, and compare it as its users read it.

    ``to`` is one of ``workflows.export.registry.TARGETS``, and ``precision`` one of its precisions.  ``out`` appears
    complete, or not at all if the answers or the ids differ.  ``allow_pickle`` reads weights of ``torch.save`` if there
    are no safetensors.

    ``push`` uploads an export for transformers or PEFT to this repository of the hub, OWNER/NAME, if its comparison
    passed; a new one is private unless ``public``.  ``license`` is named in its model card.

    Raises InputError for a source that cannot be read, a model that the target cannot express, a
    library that is missing, and for an ``out`` that holds anything but an earlier export.
    """
    place, writer = Path(out), target(to)
    spec = TARGETS[to]
    precision = precision or spec.precisions[0]
    spec.check(precision)
    if push is not None:
        check_push(push, to)
    directory = locate_model(source, allow_pickle=allow_pickle).path
    check_free(place, directory)
    subject = _subject(directory, allow_pickle)
    try:
        writer.refuse(subject)
    except InputError as error:
        raise InputError(f"{error} {_instead(subject)}") from None
    if spec.answers and subject.pipe is None:
        raise InputError(
            f"{directory}: Headway cannot answer with it, so there is nothing to compare an export with "
            f"({subject.no_pipe}). {_instead(subject)}"
        )
    facts, member = read_facts(directory) or {}, best_member(directory)
    if member is not None:  # the figures of what is written; without them, none
        own = read_facts(directory / member) or {**facts, "metrics": {}, "verdict": None}
        facts = {**own, "ensemble": {"members": len(facts["members"]), "metrics": facts["metrics"]}}
    if push is not None and spec.lora:
        check_base(push, facts["base"]["path"])
    with _as_input_error(place), staged_directory(place.absolute()) as staged:
        writer.write(subject, staged, precision)
        parity = writer.compare(subject, staged, precision)
        task = task_of(subject.model) or with_head("text", wiring_name(subject.model), Gives.VOCABULARY) or "images"
        exported = Export(place, task, parity, to, precision, member)
        if exported.made:
            if spec.card and exported.task in NAMES:
                _write_card(subject, facts, exported, staged, push or place.absolute().name, license)
            write_json(staged / RECORD, _record(str(source), full_fingerprint(directory), exported, staged))
            put_in_place(staged, place.absolute())
    if push is not None and exported.made:
        if not parity.passed:
            raise InputError(
                f"--push {push}: {parity.problem}, so the export was not compared and nothing was pushed; pip install "
                f"--upgrade {parity.needs}, then run this command again. The export is in {place}."
            )
        return replace(exported, address=push_directory(place, push, public=public))
    return exported


def _write_card(
    subject: Subject, facts: dict[str, Any], found: Export, directory: Path, place: str, license: str | None
) -> None:
    """README.md: made from headway.json, else that of the source, if it has one."""
    earlier = subject.directory / CARD
    if not facts and earlier.is_file() and license is None:
        text = earlier.read_text(encoding="utf-8", errors="replace")
    else:
        text = card(subject, facts, found.task, found.parity, place, target=found.target, license=license)
    write_whole(directory / CARD, lambda path: path.write_text(text, encoding="utf-8"))


def _subject(directory: Path, allow_pickle: bool) -> Subject:
    """The model in a directory, with its tokenizer and its pipeline."""
    check_files(directory, read_facts(directory))
    model = load_model(directory, allow_pickle=allow_pickle)
    pipe: Pipeline | None = None  # of a model that has no task, or lacks files that the pipeline needs
    reason = ""
    try:
        pipe = pipeline_of(model, directory, alone=True)
    except InputError as error:
        reason = str(error).removesuffix(".")
    tokenizer = getattr(pipe, "tokenizer", None)
    if pipe is None and getattr(model, "patches", None) is None:
        tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
    if length := getattr(pipe, "max_length", None):
        limit_sequences(model, length)
    return Subject(model, tokenizer, pipe, directory, reason)


def check_free(out: Path, source: Path) -> None:
    """Raise InputError unless ``out`` is missing, empty, or an earlier export with nothing else in it."""
    with _as_input_error(out):
        if not os.path.lexists(out):
            return
        if out.is_symlink() or not out.is_dir():
            kind = "a symbolic link" if out.is_symlink() else "not a directory"
            raise InputError(f"{out}: this is {kind}; name another directory with --out.")
        if source.exists() and out.samefile(source):
            raise InputError(f"{out}: this is the model itself; name another directory with --out.")
        if Path.cwd().is_relative_to(out.resolve()):  # which is replaced, and the shell would stay in the old one
            raise InputError(f"{out}: this is the working directory; name a directory in it with --out.")
        names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_symlink() or not path.is_dir()}
        if not names:
            return
        written = read_object(out / RECORD).get("files") if RECORD in names else None
        foreign = sorted(names - {RECORD, *(written if isinstance(written, dict) else ())})
        if foreign:
            raise InputError(
                f"{out}: it holds {foreign[0]}, which is not from an export, so nothing was overwritten; "
                "name another directory with --out."
            )


def _instead(subject: Subject) -> str:
    """What to do with a model that a target refuses, as a sentence."""
    refused = refusals(subject.model, subject.tokenizer, subject.pipe)
    possible = [
        name for name, reason in refused.items() if reason is None and (subject.pipe or not TARGETS[name].answers)
    ]
    return f"This model can be exported to {', '.join(possible)}." if possible else "No target takes this model."


def _record(source: str, model: str, found: Export, directory: Path) -> dict[str, Any]:
    """The content of ``RECORD``."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        "headway": __version__,
        "source": source,
        "model": model,
        "target": found.target,
        "precision": found.precision,
        "task": found.task,
        "checked": found.parity.checked,
        "max_difference": found.parity.max_difference,
        "tokens_equal": found.parity.tokens_equal,
        "versions": {
            "python": platform.python_version(),
            "torch": version("torch"),
            found.parity.reader: found.parity.version,
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
        reason = why_not(out, cause)
        raise InputError(f"{out}: cannot be written {reason}; name another directory with --out.") from None
