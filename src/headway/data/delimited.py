"""Comma-, semicolon-, tab- and bar-separated tables.

The csv module of the standard library cuts the fields; around it stand the checks it does not make: which delimiter,
whether line 1 is a header, rows of another length, and quotes that are never closed.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from headway.data.column_names import HEADER_NAMES
from headway.data.rows import BadRows, OpenTable, shorten
from headway.data.tags import are_tagged, tagged
from headway.errors import InputError
from headway.io.quantities import counted

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}

FIELD_LINES = 100
"""A quoted field of more newlines is looked at twice: a missing quote may have swallowed rows."""

FIELD_CHARACTERS = 1 << 20
ROW_CHARACTERS = 64 << 20
"""A row of more characters than this is not read to its end."""

SNIFF_ROWS = 50


class _Lines:
    """Feeds lines to the csv reader and remembers those of the row it is reading."""

    def __init__(self, path: Path, lines: Iterable[str], delimiter: str) -> None:
        self.path, self.delimiter = path, delimiter
        self.lines = iter(lines)
        self.number = 0
        self.row: list[str] = []
        self.size = 0

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.number += 1
            self.row.append(line)
            self.size += len(line)
            if self.size > ROW_CHARACTERS:
                raise self.unclosed()
            yield line

    def begin(self) -> None:
        """The next line is the first of a row."""
        self.row.clear()
        self.size = 0

    @property
    def first(self) -> int:
        """The line at which the row being read starts."""
        return self.number - len(self.row) + 1

    def unclosed(self) -> InputError:
        """The error for the quote that swallowed everything up to here."""
        line = self.first + _open_quote("".join(self.row), self.delimiter)
        return InputError(
            f'{self.path}, line {line}: the quote (") opened here is never closed. '
            'Close it, or write "" for a quote inside a quoted field.'
        )


def open_delimited(path: Path, lines: Iterator[str], delimiter: str | None, tabs: bool, bad: BadRows) -> OpenTable:
    """Read the header of a delimited file and return its columns and rows.

    `delimiter` None tries , ; tab and | ; `tabs` says that the extension promises tabs.  Raises InputError for a header
    that is none, and through `bad` for malformed rows.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InputError(f"the delimiter must be one character such as , or ; but it is {delimiter!r}.")
    sample = list(islice(lines, SNIFF_ROWS * 4))
    if not any(line.strip() for line in sample):
        raise InputError(f"{path}: this file has no rows; expected a header line and rows below it.")
    said = re.fullmatch(r"sep=(.)\r?\n?", sample[0])  # as Excel writes
    if said:
        delimiter, sample = delimiter or said[1], sample[1:]
    if sample and are_tagged(sample[0]) and (evidence := tagged(sample)):
        raise InputError(
            f"{path}: {evidence}: these are tagged tokens (CoNLL, IOB) without a header, for which Headway has no task "
            "yet. To read the file as plain text all the same, call it .txt and use --task language_modeling."
        )
    chosen = delimiter or sniff(sample, "\t" if tabs else ",")
    feed = _Lines(path, chain(sample, lines), chosen)
    feed.number = 1 if said else 0
    records = _records(feed, bad)
    header_line, header = next(records, (1, []))
    columns = [cell.strip() for cell in header]
    _check_header(path, header_line, columns, chosen, delimiter)
    columns = _check_columns(path, header_line, columns, _lenient(sample, chosen))
    return OpenTable(columns, _rows(records, columns, bad, path))


def sniff(sample: list[str], preferred: str = ",") -> str:
    """The delimiter that cuts most rows of the sample into as many fields as the first; `preferred` when none does."""
    best, best_score = preferred, 0.0
    for delimiter in sorted(DELIMITERS, key=lambda candidate: candidate != preferred):
        counts = [len(row) for row in _lenient(sample, delimiter) if row]
        if len(counts) > 2 and len(sample) >= SNIFF_ROWS * 4:
            counts.pop()  # the sample may end in the middle of a row
        counts = counts[:SNIFF_ROWS]
        if not counts or counts[0] < 2:
            continue
        score = sum(count == counts[0] for count in counts) / len(counts)
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _lenient(sample: list[str], delimiter: str) -> list[list[str]]:
    """The rows of a sample as far as they can be read."""
    csv.field_size_limit(max(csv.field_size_limit(), ROW_CHARACTERS))
    rows = []
    try:
        for row in csv.reader(sample, delimiter=delimiter):
            rows.append(row)
    except csv.Error:
        pass
    return rows


def _records(feed: _Lines, bad: BadRows) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line they start at; blank lines are left out.

    The limit of the csv module on the length of a field holds for the whole process; it is raised here, never lowered.
    """
    csv.field_size_limit(max(csv.field_size_limit(), ROW_CHARACTERS))
    reader = csv.reader(feed, delimiter=feed.delimiter, strict=True)
    while True:
        feed.begin()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            _malformed(feed, bad, error)
            continue
        if len(feed.row) == 1 and "\0" in feed.row[0]:
            column = feed.row[0].index("\0") + 1
            bad.add(feed.first, f"a NUL byte at column {column}; expected text. Remove it and run again.")
            continue
        if len(feed.row) > 1:
            _check_long_row(feed, row)
        if row:
            yield feed.first, row


def _malformed(feed: _Lines, bad: BadRows, error: csv.Error) -> None:
    words = str(error)
    if "unexpected end" in words:
        raise feed.unclosed()
    if "new-line character" in words:
        reason = 'a carriage return stands inside the row. Save the file with "\\n" line ends, or quote the field.'
        bad.add(feed.first, reason)
    elif len(feed.row) > 1:
        raise feed.unclosed()
    else:
        reason = 'a closing quote (") is followed by more text. Write "" for a quote inside a quoted field'
        bad.add(feed.first, f"{reason}, or pass --on-bad-row skip.")


def _check_long_row(feed: _Lines, row: list[str]) -> None:
    """Refuse NULs, and a quote that closes after it has swallowed rows."""
    line = feed.first
    for cell in row:
        if "\0" in cell:
            at = line + cell.count("\n", 0, cell.index("\0"))
            raise InputError(f"{feed.path}, line {at}: a NUL byte; expected text. Remove it and run again.")
        long = cell.count("\n") > FIELD_LINES or len(cell) > FIELD_CHARACTERS
        if long and _swallowed(cell, row, feed.delimiter):
            raise InputError(
                f'{feed.path}, line {line}: the quote (") opened here closes only after {cell.count(chr(10)):,} '
                "lines that look like rows. Close it where its field ends."
            )
        line += cell.count("\n")


def _swallowed(cell: str, row: list[str], delimiter: str) -> bool:
    """Whether the lines inside a field look like rows: as many fields, and a first or last one in common."""
    inside = [text.strip("\r\n") for text in cell.split("\n")[1:-1] if text.strip()]
    whole = [text for text in inside if text.count(delimiter) == len(row) - 1]
    shared = any(text.split(delimiter)[0] == row[0] or text.split(delimiter)[-1] == row[-1] for text in whole)
    return len(row) > 1 and len(whole) > 0.8 * len(inside) and shared


def _open_quote(text: str, delimiter: str) -> int:
    """How many lines into `text` the quote stands that is still open at its end, or closes before more text."""
    separator = re.compile(f"{re.escape(delimiter)}|\n")
    closing = re.compile('(?:[^"]|"")*"(?!")')
    opening = at = 0
    while at < len(text):
        if text[at] == '"':
            opening = at
            closed = closing.match(text, at + 1)
            if closed is None or text[closed.end() : closed.end() + 1] not in ("", delimiter, "\r", "\n"):
                break
            at = closed.end()
        following = separator.search(text, at)
        if following is None:
            break
        at = following.end()
    return text.count("\n", 0, opening)


def _check_header(path: Path, line: int, columns: list[str], chosen: str, asked: str | None) -> None:
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


def _check_columns(path: Path, line: int, columns: list[str], rows: list[list[str]]) -> list[str]:
    """The columns; of several without a name, those behind the last name get one.

    Raises InputError for a title above the header, for rows that stand in quotes as a whole, and for columns without a
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


def _rows(
    records: Iterator[tuple[int, list[str]]], columns: list[str], bad: BadRows, path: Path
) -> Iterator[tuple[int, list[str]]]:
    """The rows that have a value for every column."""
    unsure = {at: name for at, name in enumerate(columns) if name and name.casefold() not in HEADER_NAMES}
    seen = 0
    for line, row in records:
        if len(row) != len(columns):
            bad.add(line, _ragged(row, columns))
            continue
        if len(row) > 1 and [cell.strip() for cell in row] == columns and len(columns) > 1:
            bad.add(line, "this row repeats the header. Remove it.")
            continue
        seen += 1
        if seen <= 1000 and len(columns) > 1 and any(row[at].strip() == name for at, name in unsure.items()):
            raise no_header(path, 1, columns)
        yield line, row


def _ragged(row: list[str], columns: list[str]) -> str:
    have, want = len(row), len(columns)
    fields = f"this row has {counted(have, 'field')}, the header has {want}"
    if have < want:
        names = ", ".join(repr(name) for name in columns[have:])
        return f"{fields}: nothing for {names}. Add what is missing, or pass --on-bad-row skip."
    return f"{fields}. Put quotes around a field that holds the delimiter, or pass --on-bad-row skip."
