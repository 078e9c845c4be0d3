"""The header of a delimited table: names, each once, and no values."""

import re
from pathlib import Path

from headway.data.open.column_names import HEADER_NAMES
from headway.data.records.rows import shorten
from headway.errors import InputError

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


def check_header(path: Path, line: int, columns: list[str], chosen: str, asked: str | None) -> None:
    """Raise InputError for names that occur twice, names that are values, and a delimiter that does not occur."""
    found = ", ".join(shorten(cell) for cell in columns[:6])
    if asked is not None and len(columns) == 1:
        other = next((name for name in DELIMITERS if name != asked and name in columns[0]), None)
        if other is not None:
            raise InputError(
                f"{path}, line {line}: the delimiter {asked!r} does not occur in the header {found}. "
                f"It looks like {DELIMITERS[other]}-separated; leave out --delimiter."
            )
    twice = sorted({cell for cell in columns if cell and columns.count(cell) > 1})
    if twice:
        raise InputError(f"{path}, line {line}: the header has {twice[0]!r} twice; every column needs its own name.")
    named = [cell for cell in columns if cell]
    counted = named == [str(index) for index in range(len(named))]  # as pandas writes a table without names
    for cell in columns:
        if (
            (_is_number(cell) and not counted)
            or len(cell) > 64
            or len(cell.split()) > 6
            or "\n" in cell
            or (not cell and len(columns) == 1)
        ):
            raise no_header(path, line, columns)


def check_columns(path: Path, line: int, columns: list[str], rows: list[list[str]]) -> list[str]:
    """The columns; of several without a name, those after the last name get one.

    Raises InputError for a title above the header, for rows that are quoted as a whole, and for columns without a
    name that hold something.
    """
    named = [cell for cell in columns if cell]
    if len(columns) == 1:
        for delimiter in DELIMITERS:
            words = {re.sub('"', "", cell).strip().casefold() for cell in columns[0].split(delimiter)}
            if len(words) > 1 and words & HEADER_NAMES:
                raise InputError(
                    f"{path}, line {line}: the whole row is one field, {shorten(columns[0])}; expected several, with "
                    f"a {DELIMITERS[delimiter]} between them. Remove the quotes around whole rows."
                )
    filled = next((row for row in rows[1:] if len(row) == len(columns) and all(row[: max(2, len(named))])), None)
    if len(named) == 1 < len(columns) and columns[0] and filled is not None:
        raise InputError(
            f"{path}, line {line}: {shorten(columns[0])} has no other names next to it, but rows below have "
            f"{len(columns)} fields. Remove the lines above the names of the columns, or name every column."
        )
    empty = [at for at, cell in enumerate(columns) if not cell]
    if len(empty) > 1 and any(row[at].strip() for row in rows[1:] if len(row) == len(columns) for at in empty):
        raise InputError(f"{path}, line {line}: {len(empty)} columns have no name; name each of them.")
    return [cell or (f"column {at + 1}" if len(empty) > 1 else "") for at, cell in enumerate(columns)]


def no_header(path: Path, line: int, columns: list[str]) -> InputError:
    """The error for a first line that holds values instead of names."""
    found = ", ".join(shorten(cell) for cell in columns[:6])
    example = "text" if len(columns) == 1 else "text and label, or source and target"
    return InputError(
        f"{path}, line {line}: this does not look like a header: {found}. Add a first line that names the columns, "
        f"for example {example}."
    )


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[-+]?\d+([.,]\d+)?", cell) is not None
