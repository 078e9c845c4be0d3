"""Texts with labels outside of tables: lines of fastText, and a folder of texts for each class.

__label__good A fine lamp.
FOLDER/CLASS/1.txt
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.data.open.files import PARTS, folder_files, kind, pieces
from headway.data.records.chunks import chunked
from headway.data.records.rows import BadRows, OpenTable, shorten
from headway.errors import InputError

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


AS_TEXT = "--task language_modeling reads all of them as running text"


def are_class_folders(inputs: Sequence[str | Path]) -> bool:
    """Whether the inputs are folders with a folder of texts for each class.  Raises InputError for both kinds."""
    folders = [path for path in inputs if Path(path).is_dir() and _holds_classes(Path(path))]
    if other := next((path for path in inputs if folders and path not in folders), None):
        raise InputError(f"{folders[0]} has a folder of texts for each class, {other} has not; give one kind.")
    return bool(folders)


def _holds_classes(folder: Path) -> bool:
    """Whether the texts of a folder are in folders in it, at least two, or in those of its only folder.

    Raises InputError for parts of the data, such as train and test, for few texts in no class, and for classes of one.
    """
    files = [path.relative_to(folder) for path in folder_files(folder)]
    if kind(files[0]) != "text":
        return False
    names = list(dict.fromkeys(path.parts[0] for path in files if len(path.parts) > 1))
    if len(names) == 1 and all(len(path.parts) > 2 for path in files):
        return _holds_classes(folder / names[0])
    inner = {path.parts[:2] for path in files if len(path.parts) > 2}
    repeated = len({name for _, name in inner}) < len(inner)  # train/pos and test/pos
    parts = [name for name in names if name.lower() in PARTS]
    if len(names) > 1 and (len(parts) > 1 or repeated or (parts and inner)):
        train = next((name for name in names if name.lower().startswith("train")), names[0])
        rest = " ".join(str(folder / name) for name in names if name != train)
        raise InputError(
            f"{folder}: {' and '.join(names)} look like parts of the data; train on {folder / train} and name the "
            f"rest: --validation {rest}. {AS_TEXT}."
        )
    others = [path for path in files if len(path.parts) != 2]
    if len(names) < 2 or len(others) > len(names):
        return False
    if others:
        raise InputError(
            f"{folder}: has folders of texts ({', '.join(names[:4])}) and texts that are in none of them "
            f"({others[0]}); for classification, keep only a folder for each class. {AS_TEXT}."
        )
    if len(files) == len(names):
        raise InputError(f"{folder}: has {len(names)} folders of one text each; a class needs several. {AS_TEXT}.")
    return True
