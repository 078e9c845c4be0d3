"""Lines of fastText: a label and a text, ``__label__good A fine lamp.``"""

from collections.abc import Iterator
from pathlib import Path

from headway.data.open.files import pieces
from headway.data.records.chunks import chunked
from headway.data.records.rows import BadRows, OpenTable, shorten

PREFIX = "__label__"
COLUMNS = ["text", "label"]
LOOKED_AT = 100
"""Lines by which a file is recognised."""


def holds_labels(path: Path, encoding: str | None) -> bool:
    """Whether most lines at the beginning of a text file hold a label."""
    lines = next((piece for piece in pieces(path, encoding) if piece.strip()), "").splitlines()[:LOOKED_AT]
    filled = [line.split() for line in lines if line.strip()]
    return sum(any(word.startswith(PREFIX) for word in words) for words in filled) > len(filled) / 2


def open_labelled_lines(path: Path, lines: Iterator[str], bad: BadRows) -> OpenTable:
    """The lines as rows of a text and its label, without the prefix; a line that has not one label is malformed."""
    return OpenTable(COLUMNS, chunked(COLUMNS, _rows(lines, bad)))


def _rows(lines: Iterator[str], bad: BadRows) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, start=1):
        words = line.split()
        labels = [word for word in words if word.startswith(PREFIX)]
        if words and (len(labels) != 1 or labels[0] != words[0]):
            several = "no task takes several labels per text yet; --task language_modeling reads the file as it is."
            bad.add(number, f"{shorten(line.strip())}: expected one {PREFIX} at the start of the line; {several}")
        elif "\0" in line:
            bad.add(number, "a NUL byte; expected text. Remove it and run again.")
        elif words:
            yield number, [line.strip().removeprefix(labels[0]).strip(), labels[0].removeprefix(PREFIX)]
