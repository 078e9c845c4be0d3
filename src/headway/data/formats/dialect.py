"""The header and the quotes of a delimited table: names, each once; and rows that a stray quote has swallowed."""

import contextlib
import csv
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path

from headway.data.formats.aligned import are_sides
from headway.data.open.columns import HEADER_NAMES, MOST_LABELS
from headway.data.open.files import LONGEST_LINE
from headway.data.records.rows import occurs_twice, shorten
from headway.errors import InputError

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
LEAST = 5
"""With fewer rows below it, a line is not compared with them."""
SENTENCE_ENDS = tuple(".!?…。！？")


def check_header(path: Path, line: int, columns: list[str], chosen: str, asked: str | None) -> None:
    """Raise InputError for names that occur twice, names that are values, and a delimiter that does not occur."""
    shown = ", ".join(shorten(cell) for cell in columns[:6])
    if asked is not None and len(columns) == 1:
        other = next((name for name in DELIMITERS if name != asked and name in columns[0]), None)
        if other is not None:
            raise InputError(
                f"{path}, line {line}: the delimiter {asked!r} does not occur in the header {shown}. "
                f"It looks like {DELIMITERS[other]}-separated; leave out --delimiter."
            )
    twice = occurs_twice(filter(None, columns))
    if twice is not None:
        raise InputError(f"{path}, line {line}: the header has {twice!r} twice; every column needs its own name.")
    named = [cell for cell in columns if cell]
    counted = named == [str(index) for index in range(len(named))]  # as pandas writes a table without names
    for cell in columns:
        is_value = re.fullmatch(r"[-+]?\d+([.,]\d+)?", cell) and not counted
        if is_value or len(cell) > 64 or len(cell.split()) > 6 or "\n" in cell or not (cell or len(columns) > 1):
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
    shown = ", ".join(shorten(cell) for cell in columns[:6])
    example = "text" if len(columns) == 1 else "text and label, or source and target"
    return InputError(
        f"{path}, line {line}: this does not look like a header: {shown}. Add a first line that names the columns, "
        f"for example {example}."
    )


def lenient(sample: list[str], delimiter: str) -> list[list[str]]:
    """The rows of a sample as far as they can be read."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    rows = list[list[str]]()
    with contextlib.suppress(csv.Error):
        rows.extend(csv.reader(sample, delimiter=delimiter))
    return rows


def as_rows(lines: list[str], row: list[str], delimiter: str) -> list[list[str]]:
    """The rows that the lines of one row are if the quote that joins them is text; none if the first or last is none.

    A quote opens a field only at the field's beginning; a stray one there closes at the next, and all rows in between
    are swallowed.  A cell that begins with a blank, where the row's own does not, is the next words of a sentence.
    """
    *before, opened = _cells(lines[0], delimiter)
    first = [*before, *opened.split(delimiter)]
    last = _cells(lines[-1].replace('"', "", 1), delimiter)
    if len(row) < 2 or not len(first) == len(last) == len(row):
        return []
    if any(cell[:1].isspace() > own[:1].isspace() for cell, own in zip(first[1:], row[1:], strict=True)):
        return []
    return [first, *(_cells(line, delimiter) for line in lines[1:-1] if line.strip()), last]


def _cells(line: str, delimiter: str) -> list[str]:
    return next(iter(lenient([line.rstrip("\r\n")], delimiter)), [""])


def fits_columns(usual: list[list[str]], rows: list[list[str]]) -> Callable[[list[str]], bool]:
    """What says whether a row, one of ``rows``, fits the columns of ``usual`` rows.

    Each cell begins as others in its column do: with a blank, a digit or anything else, or it is empty.  In a column
    of few values it is one of them, or of three cells of ``rows``: lines of one text may have two cells in common.
    """
    whole = [one for one in rows if len(one) == len(usual[-1])]
    starts = [{_start(cell) for cell in cells} for cells in zip(*usual, strict=True)]
    known, own = ([Counter(map(str.strip, cells)) for cells in zip(*part, strict=True)] for part in (usual, whole))
    counts = [one + other for one, other in zip(known, own, strict=True)]
    few = [2 * len(count) <= min(count.total(), 2 * MOST_LABELS) for count in counts]

    def fits(row: list[str]) -> bool:
        return len(row) == len(few) and all(
            _start(cell) in starts[at] and (not few[at] or cell.strip() in known[at] or own[at][cell.strip()] > 2)
            for at, cell in enumerate(row)
        )

    return fits


def _start(cell: str) -> str:
    first = cell[:1]
    return "blank" if first.isspace() else "digit" if first.isdigit() else first and "other"


def open_quote(text: str, delimiter: str) -> int:
    """How many lines into `text` the quote stands that is still open at its end, or closes before more text."""
    cut = re.escape(delimiter)
    field = re.compile(rf'(?:"(?:[^"]++|"")*+"(?=[{cut}\r\n]|\Z)|(?!"))[^{cut}\n]*(?:[{cut}\n]|\Z)')
    opening = at = 0
    while at < len(text):
        opening = at if text[at] == '"' else opening
        if (match := field.match(text, at)) is None:
            break
        at = match.end()
    return text.count("\n", 0, opening)


@cache
def bare_quote(delimiter: str) -> re.Pattern[str]:
    """Finds an odd number of quotes between other characters of a field: in a quoted field they are even."""
    edge = rf'[{re.escape(delimiter)}"\r\n]'
    return re.compile(f'"(?<!{edge}")(?<!^")(?:"")*(?!{edge}|$)')


@cache
def doubled_quote(delimiter: str) -> re.Pattern[str]:
    """Finds the beginning of a quoted field up to the first quote in it, which is doubled."""
    return re.compile(f'"(?:(?<=[{re.escape(delimiter)}\n]")|(?<=^"))[^"]*""')
