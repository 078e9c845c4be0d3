"""The header of a delimited table: names, each once, and no values."""

import re
from collections import Counter
from itertools import combinations
from pathlib import Path

from headway.data.formats.aligned import are_sides
from headway.data.open.column_names import HEADER_NAMES
from headway.data.records.rows import occurs_twice, shorten
from headway.errors import InputError

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
LEAST = 5
"""With fewer rows below it, a line is not compared with them."""
SENTENCE_ENDS = tuple(".!?…。！？")


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
    twice = occurs_twice(filter(None, columns))
    if twice is not None:
        raise InputError(f"{path}, line {line}: the header has {twice!r} twice; every column needs its own name.")
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

    Raises InputError for a title above the header, for rows that are quoted as a whole, for columns without a name that
    hold something, and for a first line that reads like the rows below.
    """
    if _is_row(columns, [row for row in rows if len(row) == len(columns) and [*map(str.strip, row)] != columns]):
        raise no_header(path, line, columns)
    named = [cell for cell in columns if cell]
    if len(columns) == 1:
        below = [row[0] for row in rows if len(row) == 1 and row[0].strip() != columns[0]]
        for delimiter in set(DELIMITERS).difference(columns[0]):
            count, times = Counter(cell.count(delimiter) for cell in below).most_common(1)[0] if below else (0, 0)
            if count and times >= max(LEAST, 0.9 * len(below)):
                raise InputError(
                    f"{path}, line {line}: {shorten(columns[0])} has no {DELIMITERS[delimiter]}, and {times:,} of "
                    f"{len(below):,} lines below have {count}. Remove lines above the header, or name a --delimiter."
                )
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


def _is_row(columns: list[str], rows: list[list[str]]) -> bool:
    """Whether a first line reads like the rows below: no cell is a usual name, and every cell like its column."""
    names = [cell.casefold() for cell in columns]
    if len(rows) < LEAST or HEADER_NAMES & set(names) or any(are_sides(*two) for two in combinations(names[:20], 2)):
        return False
    cells = zip(columns, zip(*rows, strict=True), strict=True)
    return all(_reads_like(cell, below, alone=len(columns) == 1) for cell, below in cells if cell)


def _reads_like(cell: str, below: tuple[str, ...], *, alone: bool) -> bool:
    """Whether a cell has as many words as others of its column, and either their words or the end of a sentence."""
    count = len(cell.split())
    if "_" in cell or count < min(len(other.split()) for other in below) or (alone and count == 1):
        return False
    words = _words(cell)
    shared = words & {word for other in below for word in _words(other)}
    ended = sum(other.rstrip().endswith(SENTENCE_ENDS) for other in below)
    return 2 * len(shared) > len(words) or (cell.endswith(SENTENCE_ENDS) and 2 * ended > len(below))


def _words(cell: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", cell.casefold()))


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
