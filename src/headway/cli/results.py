"""Results in a file: where they may be written, and the columns of their tables."""

import json
import os
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from headway.cli.common import is_file
from headway.cli.texts import Texts
from headway.errors import InputError
from headway.io.csv_text import as_csv
from headway.tasks.command import Command, Inputs


def check_output(to: str | None, read: str, endings: tuple[str, ...]) -> None:
    """Raise InputError if results cannot go to ``to``: it is the input, of an unknown kind, or in no usable folder.

    Warns if they will replace a file.
    """
    if to is not None and is_file(read) and Path(to).resolve() == Path(read).resolve():
        raise InputError(f"--to {to}: this is the input file; name another file so that nothing is lost.")
    if to is not None and not to.endswith(endings):
        kinds = " or ".join([", ".join(endings[:-1]), endings[-1]])
        raise InputError(f"--to {to}: results are written as {kinds}; use one of these endings.")
    if to is not None and Path(to).is_dir():
        raise InputError(f"--to {to}: this is a folder; name a file.")
    if to is not None:
        folder = next(folder for folder in Path(to).resolve().parents if folder.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            what = "cannot be written to" if folder.is_dir() else "is a file, not a folder"
            raise InputError(f"--to {to}: {folder} {what}; name a place in another folder.")
    if to is not None and Path(to).exists():
        warnings.warn(
            f"{to}: this file exists and will be replaced when all results are there; interrupt the command and name "
            "another file with --to if you need it",
            stacklevel=2,
        )


def make_folder(path: Path) -> None:
    """Make the folder of a file, and those above it.  Raises InputError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: this folder cannot be made ({error.strerror or error}).") from None


def write_output(to: str, parts: Iterable[bytes]) -> None:
    """Write a file, completely or not at all.  Raises InputError if that fails."""
    from headway.io.atomic_write import write_whole

    def write(new: Path) -> None:
        with new.open("wb") as file:
            file.writelines(parts)

    path = Path(to)
    make_folder(path)
    try:
        write_whole(path, write)
    except OSError as error:
        raise InputError(f"{to}: cannot be written ({error.strerror or error}).") from None


def as_bytes(text: str) -> bytes:
    """Text encoded for a results file; a lone surrogate is escaped as in JSON."""
    return text.encode("utf-8", errors="backslashreplace")


class Beside:
    """The other columns of the input table; a column whose name is ``taken`` becomes "given: label"."""

    def __init__(self, inputs: Inputs, taken: Collection[str]):
        self.texts = inputs.values if isinstance(inputs.values, Texts) else None
        others = () if self.texts is None else self.texts.others
        self.names: dict[str, str] = {}
        for column in others:
            name = column
            while name in taken or name in self.names.values():
                name = f"given: {name}"
            self.names[column] = name

    @property
    def header(self) -> list[str]:
        return list(self.names.values())

    def of(self, number: int) -> dict[str, str]:
        """The other columns of a text of the present piece, by its number from 0."""
        if self.texts is None or not self.names:
            return {}
        row = self.texts.row(number)
        return {name: row[column] for column, name in self.names.items()}


class ResultsFile:
    """The content of a file of answers, by its ending: .csv, .jsonl, .txt, or an ending of the command's own."""

    def __init__(self, use: Command, to: str):
        self.use, self.ending = use, Path(to).suffix
        self.more = Beside(use.inputs if use.keeps_columns else Inputs(use.inputs.run, ()), [*use.taken])

    def header(self) -> bytes:
        """The content before the first answer."""
        if self.ending == ".csv":
            return as_bytes(as_csv([[*self.use.columns, *self.more.header]]))
        return b"" if self.ending in (".jsonl", ".txt") else self.use.header()

    def content(self, start: int, found: Sequence[Any]) -> bytes:
        """Some answers, from input number ``start`` on."""
        use, numbered = self.use, enumerate(found, start)
        if self.ending == ".csv":
            rows = ([*row, *self.more.of(at).values()] for at, one in numbered for row in use.rows(at, one))
            return as_bytes(as_csv(rows))
        if self.ending == ".jsonl":
            objects = ({**each, **self.more.of(at)} for at, one in numbered for each in use.objects(at, one))
            return as_bytes("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects))
        if self.ending == ".txt":
            return as_bytes("".join(f"{use.line(one)}\n" for one in found))
        return use.content(found)
