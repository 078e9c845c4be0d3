"""A run directory: a Hugging Face model directory with the run's decisions, log and checkpoints."""

import contextlib
import json
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.errors import InputError
from headway.hub.directory import batch_settings, padding_entry, save_any
from headway.hub.kept_entries import CONFIG, GENERATION
from headway.hub.preprocessor import ImagePreprocessor, save_preprocessor
from headway.hub.sentence_transformers import sequence_length
from headway.io.atomic_write import TEMPORARY, append_line, remove_left_behind, temporary, write_json, write_whole
from headway.io.file_lock import locked
from headway.models.adapt.lora import merged
from headway.models.device import PROCESSOR, gpu_name
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.text.tokenizer import Tokenizer
from headway.training.store.checkpoint import saving
from headway.training.store.contents import LOG, SNAPSHOTS
from headway.training.store.facts import FILE, FILES, read_facts, write_facts
from headway.training.store.tracking import Tracking


def best_member(path: Path) -> str | None:
    """The name of the best member of a run with several seeds; None for any other directory."""
    facts = read_facts(path) or {}
    members = facts.get("members")
    return str(facts.get("best_member", members[0])) if members else None


WAIT = "wait for it, or use another --out"
"""What to do where another command trains in the same directory."""
WRITTEN = (FILE, LOG, "report.html", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
"""Files that training writes."""
LEFT = ("checkpoints", "adapted", "snapshots", "report.html", "headway.json")
"""Files that are not copied: a copy cannot be resumed, and has its own headway.json."""


class RunDirectory:
    """Where a run keeps its results.  ``facts`` is headway.json."""

    def __init__(self, path: Path):
        self.path = path
        self.facts: dict[str, Any] = {}
        self._made: list[Path] = []
        self._tracking: Tracking | None = None
        self.warn: Callable[[str], None] = lambda text: None
        """shows a warning; a log that cannot be written is reported once"""
        self._log_failed = False

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def create(self, task: str | None = None, record: str = FILE) -> None:
        """Make the directory, and check that it can be written; of a run that begins for ``task``, write headway.json.

        Raises InputError when it cannot, and when it holds anything, other than what a killed command was writing,
        without ``record``, the first file that is written there.
        """
        try:
            held = [path.name for path in self.path.iterdir()] if self.path.exists() else []
            foreign = sorted(name for name in held if not (TEMPORARY.fullmatch(name) or name.endswith(".lock")))
            if foreign and record not in foreign:
                what = f"holds {foreign[0]} but no {record}, so it is not a run of headway"
                raise InputError(f"{self.path}: {what}; use another --out.")
            self._made = [place for place in (self.path, *self.path.parents) if not place.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            if task is not None and FILE not in held:
                write_facts(self.path, {"headway": versions()["headway"], "task": task})
            probe = temporary(self.path / "writable")
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            self.discard()
            reason = error.strerror or str(error)
            raise InputError(f"{self.path}: results cannot be written there ({reason}); use another --out.") from None

    @contextlib.contextmanager
    def locked(self, *, clear: bool = True, shared: bool = False, advice: str = WAIT) -> Iterator[None]:
        """Lock the directory, alone or ``shared``, and ``clear`` away what a killed command left in it.

        The lock is the operating system's and ends with the process.  Raises InputError, which ends in ``advice``, when
        another command holds it.
        """
        with contextlib.ExitStack() as stack:
            try:
                alone = stack.enter_context(locked(self.path, shared=shared))
            except BlockingIOError:
                raise InputError(f"{self.path}: another command is training there; {advice}.") from None
            if clear and alone:
                for place in (self.path, self.checkpoints, *self.path.glob(f"{SNAPSHOTS}/*")):
                    remove_left_behind(place)
            yield

    def discard(self) -> None:
        """Remove what ``create`` made, where nothing else is there."""
        with contextlib.suppress(OSError):
            if not self.facts and [path.name for path in self.path.iterdir()] == [FILE]:
                (self.path / FILE).unlink()
            for place in self._made:
                place.rmdir()

    def read(self) -> dict[str, Any] | None:
        """The content of headway.json from an earlier command, or None.  Raises InputError when it is damaged."""
        if self.path.is_file():
            raise InputError(f"--out {self.path}: is a file; choose a directory for the results.")
        self._check_places()
        facts = read_facts(self.path)
        if facts is None or set(facts) <= {"headway", "task", FILES}:  # of a command killed before it decided anything
            return None
        if not {"options", "plan", "data"} <= set(facts):
            raise InputError(f"{self.path / FILE}: was not written by headway; use another --out.")
        self.facts = facts
        return self.facts

    def _check_places(self) -> None:
        """Raise InputError where training writes a file and something else has its name."""
        advice = "remove it, or use another --out"
        for path in (self.path / name for name in WRITTEN):
            if path.is_symlink() and not path.exists():
                raise InputError(f"{path}: is a broken link; {advice}.")
            if path.exists() and not (path.is_file() or path.is_char_device()):
                what = "a folder" if path.is_dir() else "not a file"
                raise InputError(f"{path}: is {what}, but training writes a file here; {advice}.")
        if self.checkpoints.exists() and not self.checkpoints.is_dir():
            raise InputError(f"{self.checkpoints}: is a file, but must be a directory; {advice}.")

    def update(self, **facts: Any) -> None:
        self.facts.update(facts)
        with saving(self.path / FILE):
            write_facts(self.path, self.facts)

    def log(self, event: str, **values: Any) -> None:
        """Append a line to log.jsonl; numbers that are not finite are written as text.

        A line that cannot be written is lost, with a warning for the first; training continues without it.
        """
        lost = {key: str(value) for key, value in values.items() if isinstance(value, float) and not isfinite(value)}
        try:
            append_line(self.path / "log.jsonl", json.dumps({"event": event, **values, **lost}, ensure_ascii=False))
        except OSError as error:
            if not self._log_failed:
                self.warn(f"{self.path / 'log.jsonl'}: cannot be written ({error.strerror or error}); lines are lost")
            self._log_failed = True
        if self._tracking is not None:
            self._tracking.log(event, values)

    @contextlib.contextmanager
    def tracked(self, name: str | None) -> Iterator[None]:
        """While this is open, also send the log to a tracker, if one is named."""
        self._tracking = None if name is None else Tracking(name, self.path, self.facts, self.warn)
        try:
            yield
        finally:
            if self._tracking is not None:
                self._tracking.close()

    def save_processor(self, reader: Tokenizer | ImagePreprocessor, model: nn.Module) -> None:
        """Write tokenizer.json and tokenizer_config.json, or preprocessor_config.json.  Raises SaveFailed."""
        with saving(self.path):
            if isinstance(reader, ImagePreprocessor):
                save_preprocessor(reader, self.path)
            else:
                reader.save(self.path, max_length=sequence_length(model), **batch_settings(model))

    def save_model(self, model: nn.Module, reader: Tokenizer | ImagePreprocessor, labels: list[str]) -> None:
        """Write config.json and model.safetensors, and generation_config.json for a model that writes.

        Raises SaveFailed when that is impossible, and InputError for a model that would be another one when it is
        loaded again (``hub.directory.save_model``); the earlier files are then unchanged.
        The generation settings of a base are kept, and its special tokens where the tokenizer names none.
        """
        kept, known = (getattr(model, "kept", {}).get(file, {}) for file in (CONFIG, GENERATION))
        entries = _of_tokenizer(model, reader, {**kept, **known}) if isinstance(reader, Tokenizer) else {}
        if labels:
            entries |= {"id2label": {str(i): label for i, label in enumerate(labels)}}
            entries |= {"label2id": {label: i for i, label in enumerate(labels)}}
        if isinstance(model, EncoderDecoder):
            usual: dict[str, Any] = {"num_beams": 5, "max_length": model.config.max_length}
            start = known.get("decoder_start_token_id", kept.get("decoder_start_token_id"))
            entries["decoder_start_token_id"] = entries["eos_token_id"] if start is None else start
        else:
            usual = {"do_sample": True, "temperature": 0.8}
        with saving(self.path / "model.safetensors", 4 * sum(p.numel() for p in model.parameters())):
            try:
                save_any(merged(model), self.path, **entries)
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{self.path}: {error}.") from None
            if isinstance(model, Decoder | EncoderDecoder) and not labels:
                write_json(self.path / GENERATION, {**usual, **known, **entries})

    def save_snapshot(
        self, step: int, model: nn.Module, reader: Tokenizer | ImagePreprocessor, labels: list[str]
    ) -> None:
        """Write a model directory of its own, ``snapshots/step-N``.  Raises SaveFailed where it cannot be written."""
        place = type(self)(self.path / SNAPSHOTS / f"step-{step}")
        with saving(place.path):
            place.path.mkdir(parents=True, exist_ok=True)
            place.save_processor(reader, model)
            place.save_model(model, reader, labels)
            write_facts(place.path, {**self.facts, "finished": False, "snapshot": step})


class ReadOnlyRun(RunDirectory):
    """The run directory for all ranks but the first: what would be written is not."""

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Nothing: the first rank does it."""

    create = discard = log = save_processor = save_model = save_snapshot = _nothing  # type: ignore[assignment]

    def update(self, **facts: Any) -> None:
        """Keep in memory the facts that the first rank writes."""
        self.facts.update(facts)


def _of_tokenizer(model: nn.Module, tokenizer: Tokenizer, known: dict[str, Any]) -> dict[str, Any]:
    """Entries of ``config.json`` that name tokens: those that fill a batch, begin a text and end one, and others.

    ``known`` are those of the base, which may have several end-of-text tokens, including the tokenizer's.
    """
    choices: dict[str, tuple[Any, ...]] = {
        "pad_token_id": (tokenizer.pad, known.get("pad_token_id")),
        "bos_token_id": (tokenizer.begin_of_text, tokenizer.cls, tokenizer.end_of_text, known.get("bos_token_id")),
        "eos_token_id": (tokenizer.end_of_text, tokenizer.sep, known.get("eos_token_id")),
    }
    entries = {key: next((one for one in ids if one is not None), None) for key, ids in choices.items()}
    ends = known.get("eos_token_id")
    if isinstance(ends, list) and entries["eos_token_id"] in ends:
        entries["eos_token_id"] = ends
    entries |= padding_entry(model, tokenizer)
    if isinstance(model, Encoder):
        entries |= {"cls_token_id": tokenizer.cls, "sep_token_id": tokenizer.sep}
    if isinstance(model, EncoderDecoder) and tokenizer.target_start:  # the language of the targets
        entries["forced_bos_token_id"] = tokenizer.target_start[-1]
    return entries


def copy_run(source: Path, target: Path) -> list[str]:
    """Copy the model, its tokenizer and its log, each file atomically; returns the names in ``target``."""
    names = []
    for path in sorted(source.iterdir()):
        if path.name in LEFT or path.name.startswith("."):
            continue
        names.append(path.name)
        if path.is_dir():
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
        else:
            write_whole(target / path.name, partial(shutil.copyfile, path))
    return names


def machine(device: torch.device = PROCESSOR) -> dict[str, Any]:
    named, gpu = [], gpu_name(device)
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform.startswith("linux") else []
        named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": named[0] if named else platform.processor(),
        "threads": torch.get_num_threads(),
        **({"gpu": gpu} if gpu else {}),
    }


def versions() -> dict[str, str]:
    """Versions of the libraries that results depend on."""
    found = {"python": platform.python_version()}
    for name in ("headway", "torch", "numpy", "tokenizers", "safetensors", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def clock() -> str:
    """The date and time, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
