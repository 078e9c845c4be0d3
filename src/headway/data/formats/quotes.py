"""Quotes of a delimited file: rows that one has swallowed, the one that is still open, and those that should not be.

A quote opens a field only at the field's beginning; anywhere else it is text.  A quoted field may have any number of
lines, unless these lines are rows: a stray quote then closes at the next one and swallows all rows in between.  The
lines are rows if the first and the last have as many fields as the row, and ROWS_AMONG of those between them fit the
columns of the table (``fits_columns``).  Such a field is refused.  In a file that writes a quote in a quoted field as
"", one inside a field without quotes is refused too: there a line end or a delimiter is lost.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable
from functools import cache

from headway.data.open.columns import MOST_LABELS
from headway.data.open.files import LONGEST_LINE


def lenient(sample: list[str], delimiter: str) -> list[list[str]]:
    """The rows of a sample as far as they can be read."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    rows = []
    try:
        for row in csv.reader(sample, delimiter=delimiter):
            rows.append(row)
    except csv.Error:
        pass
    return rows


def as_rows(lines: list[str], row: list[str], delimiter: str) -> list[list[str]]:
    """The rows that the lines of one row are if the quote that joins them is text; none if the first or last is none.

    A cell that begins with a blank, where the row's own does not, is the next words of a sentence.
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
    separator = re.compile(f"{re.escape(delimiter)}|\n")
    opening = at = 0
    while at < len(text):
        if text[at] == '"':
            opening = at
            at = _closed(text, at + 1)
            if not at or text[at : at + 1] not in ("", delimiter, "\r", "\n"):
                break
        following = separator.search(text, at)
        if following is None:
            break
        at = following.end()
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


def _closed(text: str, at: int) -> int:
    """The place after the quote that closes a field which goes on at ``at``; 0 where there is none."""
    while (at := text.find('"', at)) >= 0 and text.startswith('""', at):
        at += 2
    return at + 1
