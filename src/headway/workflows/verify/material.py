"""What a model is trained on for a few steps: the beginning of its run's own data, or made-up texts."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.corpus import Corpus
from headway.data.detect import IMAGES
from headway.data.dialogues import KEY, Dialogues
from headway.data.label_typing import Merging, recorded
from headway.data.labels import labelled
from headway.data.table import Table
from headway.errors import InputError
from headway.tasks.registry import room
from headway.text.tokenizer import Tokenizer
from headway.workflows.evaluate import reading_options
from headway.workflows.input import known_columns, read_input
from headway.workflows.verify.samples import Subject, ordinary

MOST_BYTES = 1 << 25
"""Of larger files it is not found out whether they are as they were, since that takes reading all of them."""
ROWS = 40
LONGEST_TEXT = 2000
"""Characters."""
WINDOWS, CHARACTERS = 20, 5
"""Windows of running text, and the characters of a token that they are reckoned with."""
LABELS = ("no", "yes")
TEXT, SECOND, LABEL = "text_column", "second_column", "label_column"


@dataclass(frozen=True)
class Material:
    """A file to train on, and the options that say what it holds."""

    file: Path
    options: dict[str, Any] = field(default_factory=dict)
    whence: str = ""


def own_data(facts: dict[str, Any], length: int, folder: Path) -> Material | None:
    """The beginning of what a run was trained on; None where that is gone, has changed, or is too much to look through.

    ``facts`` are those of its headway.json, ``length`` the tokens of its windows.
    """
    data, task = facts.get("data", {}), facts.get("task", "")
    files = [str(file) for file in data.get("inputs", [])]
    if task == IMAGES:
        return None  # to look through a folder of pictures takes long; what is learnt here does not matter
    if not files or sum(_size(Path(file)) for file in files) > MOST_BYTES:
        return None
    try:
        options = reading_options(facts, files, task)
        source, found = read_input(files, options, known_columns(facts), chat="conversations" in data)
        if source.fingerprint != data.get("fingerprint"):
            return None
        made = _beginning(source, found, options.on_bad_row, length, folder, recorded(facts))
    except InputError:
        return None
    return Material(made.file, {"task": task, **made.options}, "the beginning of its own data")


def made_up(subject: Subject, facts: dict[str, Any], length: int, folder: Path) -> Material:
    """Texts of random tokens of the model's own vocabulary."""
    pipe: Any = subject.pipe
    if pipe.task == IMAGES:
        return _pictures(subject, folder)
    draw = random.Random(0)
    words = _Words(pipe.tokenizer, subject.rows, draw)
    options: dict[str, Any]
    targets = _Words(pipe.tokenizer.target, subject.pipe.model.config.vocab_size, draw)
    rows = []
    for number in range(ROWS):
        row = room(pipe.task).made_up(facts, pipe, number, words.text(), targets.text())
        if row is None:
            break
        rows.append(row)
    if not rows:
        file = folder / "made-up.txt"
        lines = (words.text() for _ in range(1 + WINDOWS * max(length, 16) // _Words.MOST * 2))
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return Material(file, {"task": pipe.task}, "made-up text")
    file, options = _table(rows, folder)
    if pipe.task == "translation" and pipe.tokenizer.lacks_target_language:
        options["target_language"] = min(pipe.tokenizer.languages)
    return Material(file, {"task": pipe.task, **options}, "made-up texts")


def _pictures(subject: Subject, folder: Path) -> Material:
    """Random pictures in the size that the model reads, with its own classes in turn."""
    pipe: Any = subject.pipe
    labels = (pipe.labels * ROWS)[: max(ROWS, 2 * len(pipe.labels))]
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (len(labels), *pipe.preprocessor.size, 3), dtype=np.uint8)
    file = folder / "made-up.npz"
    np.savez(file, images=images, labels=np.array(labels))
    return Material(file, {"task": IMAGES}, "made-up pictures")


class _Words:
    """Makes texts of a tokenizer's ordinary tokens."""

    MOST = 12
    """tokens of a text"""

    def __init__(self, tokenizer: Tokenizer, rows: int, draw: random.Random):
        self.tokenizer, self.draw = tokenizer, draw
        self.known = ordinary(tokenizer, rows)

    def text(self) -> str:
        """One line that is not blank."""
        for _ in range(20):
            ids = self.draw.choices(self.known, k=self.draw.randint(2, self.MOST))
            if line := " ".join(self.tokenizer.decode(ids).replace("\0", " ").split()):
                return line
        return "a b"


def _beginning(
    source: Corpus | Table, found: Any, on_bad_row: str, length: int, folder: Path, merging: Merging | None
) -> Material:
    """The first texts of a source as a file of its own."""
    if isinstance(source, Corpus):
        file = folder / "beginning.txt"
        file.write_text(_first(source.chunks(), WINDOWS * max(length, 16) * CHARACTERS), encoding="utf-8")
        return Material(file)
    if isinstance(source, Dialogues):
        file = folder / "beginning.jsonl"
        lines = (json.dumps({KEY: talk}, ensure_ascii=False) for talk in source.conversations[:ROWS])
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return Material(file)
    if found.task == "classification":
        given = labelled(source, found.text_column, found.label_column, on_bad_row=on_bad_row, merging=merging)
        each = max(4, ROWS // len(given.classes))
        rows = [
            {TEXT: text[:LONGEST_TEXT], LABEL: label}
            for text, label in _first_of_each(zip(given.texts, given.labels, strict=True), each)
        ]
    else:
        names = {TEXT: found.text_column, SECOND: found.second_column, LABEL: found.label_column}
        names = {kind: name for kind, name in names.items() if name}
        filled = (row for row in source.rows if all(row[name].strip() for name in names.values()))
        rows = [
            {kind: row[name][:LONGEST_TEXT] for kind, name in names.items()}
            for row, _ in zip(filled, range(ROWS), strict=False)
        ]
    return Material(*_table(rows, folder))


def _table(rows: Sequence[dict[str, str]], folder: Path) -> tuple[Path, dict[str, Any]]:
    """Rows as a file, and the options that say what each column is: they are called as these options are."""
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return file, {kind: kind for kind in rows[0]}


def _first(chunks: Iterable[tuple[str, bool]], count: int) -> str:
    """The first ``count`` characters of running text."""
    found = ""
    for text, _ in chunks:
        found += text
        if len(found) >= count:
            break
    return found[:count]


def _first_of_each(rows: Iterable[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """The first ``most`` texts with each label, in their order; a text that was there before is left out."""
    counts: dict[str, int] = {}
    seen: set[str] = set()
    found = []
    for text, label in rows:
        if text not in seen and counts.get(label, 0) < most:
            seen.add(text)
            counts[label] = counts.get(label, 0) + 1
            found.append((text, label))
    return found


def _size(file: Path) -> int:
    """Bytes; more than can be read for a file that is not there, or for a folder."""
    return file.stat().st_size if file.is_file() else MOST_BYTES + 1
