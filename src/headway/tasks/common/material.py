"""Small data for a few steps of training: the beginning of a run's own data, or made-up texts."""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.hub.directory import model_config
from headway.models.transformer import EncoderDecoder
from headway.text.tokenizer import Tokenizer

ROWS = 40
LONGEST_TEXT = 2000
"""Characters."""
WINDOWS, CHARACTERS = 20, 5
"""Windows of running text, and the characters of a token that they are reckoned with."""
TEXT, SECOND, LABEL = "text_column", "second_column", "label_column"


@dataclass(frozen=True)
class Material:
    """A file to train on, and the options that say what it holds."""

    file: Path
    options: dict[str, Any] = field(default_factory=dict)
    origin: str = ""


@dataclass(frozen=True)
class MaterialInputs:
    """For what, how much, and where."""

    facts: dict[str, Any]
    """headway.json of the run, or nothing"""
    length: int
    """the tokens of a window"""
    folder: Path
    """where the file is written"""


def beginning(source: Corpus | Table, found: Detected, given: MaterialInputs) -> Material:
    """The first characters of running text, or the first rows of a table whose columns are filled."""
    if isinstance(source, Corpus):
        file = given.folder / "beginning.txt"
        most = WINDOWS * max(given.length, 16) * CHARACTERS
        file.write_text(_first(source.chunks(), most), encoding="utf-8")
        return Material(file)
    columns = {TEXT: found.text_column, SECOND: found.second_column, LABEL: found.label_column}
    names = {kind: name for kind, name in columns.items() if name}
    filled = (row for row in source.rows if all(row[name].strip() for name in names.values()))
    rows = [
        {kind: row[name][:LONGEST_TEXT] for kind, name in names.items()}
        for row, _ in zip(filled, range(ROWS), strict=False)
    ]
    return table(rows, given.folder)


def made_up_table(pipe: Any, folder: Path, row: Callable[[int, str, str], dict[str, str]]) -> Material:
    """Rows of random tokens: ``row`` makes one of its number, a text that is read and one that may be written."""
    draw = random.Random(0)
    words = Words(pipe.tokenizer, token_vectors(pipe.model), draw)
    targets = Words(pipe.tokenizer.target, pipe.model.config.vocab_size, draw)
    return table([row(number, words.text(), targets.text()) for number in range(ROWS)], folder, "made-up texts")


def made_up_text(pipe: Any, length: int, folder: Path) -> Material:
    """Running text of random tokens, a line for each few."""
    words = Words(pipe.tokenizer, token_vectors(pipe.model), random.Random(0))
    file = folder / "made-up.txt"
    lines = (words.text() for _ in range(1 + WINDOWS * max(length, 16) // Words.MOST * 2))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Material(file, origin="made-up text")


def table(rows: Sequence[dict[str, str]], folder: Path, origin: str = "") -> Material:
    """Rows as a file; its columns are called as the options are that name them."""
    return Material(json_lines(rows, folder / "rows.jsonl"), {kind: kind for kind in rows[0]}, origin)


def json_lines(values: Iterable[Any], file: Path) -> Path:
    """Write each value as a line of JSON."""
    file.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return file


class Words:
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


def ordinary(tokenizer: Tokenizer, rows: int) -> list[int]:
    """The ids of tokens that are no special ones and that a model with so many rows knows."""
    tokens = tokenizer.tokens[:rows]
    return [number for number, token in enumerate(tokens) if token and number not in tokenizer.special_ids] or [0]


def token_vectors(model: Any) -> int:
    """How many token vectors a model has for what it reads."""
    config = model.encoder_config if isinstance(model, EncoderDecoder) else model_config(model)
    return int(config.vocab_size)


def _first(chunks: Iterable[tuple[str, bool]], count: int) -> str:
    """The first ``count`` characters of running text."""
    found = ""
    for text, _ in chunks:
        found += text
        if len(found) >= count:
            break
    return found[:count]
