"""Comma-, semicolon-, tab- and bar-separated tables: the csv module cuts the fields; what it lets pass is checked."""

import contextlib
import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

from headway.data.formats.dialect import (
    DELIMITERS,
    as_rows,
    bare_quote,
    check_columns,
    check_header,
    doubled_quote,
    fits_columns,
    lenient,
    no_header,
    open_quote,
)
from headway.data.formats.tags import are_tagged, tagged
from headway.data.open.columns import HEADER_NAMES
from headway.data.open.files import LONGEST_LINE, too_long
from headway.data.records.rows import BadRows, Chunk, OpenTable, chunk_of, some
from headway.errors import InputError
from headway.io.quantities import counted

ROWS_AMONG = 0.8
"""The share of the lines of a quoted field that fit the columns where the field has swallowed rows."""
SNIFF_ROWS = 50
LOOKED_AT = 1000
"""Rows in which a cell equal to a column's name is a sign that there is no header, and that show what columns hold."""


class _Lines:
    """The text of a file in pieces of whole lines; line by line for the csv reader, with those of the row it reads."""

    def __init__(self, path: Path, pieces: Iterator[str]) -> None:
        self.path, self.delimiter = path, ","
        self.text, self.at = "", 0
        """the current piece, and where in it the next line begins"""
        self.number = self.piece = 0
        """how many lines and pieces there were before"""
        self.rows = 0
        """how many rows, as a spreadsheet counts them: the header, blank lines and malformed rows too"""
        self.row: list[str] = []
        self.known: list[list[str]] = []
        """the first rows of the table, LOOKED_AT at most"""
        self.size = 0
        self.doubles = False
        """whether a quoted field was seen in which a quote is doubled"""
        self._pieces, self._begun = pieces, ""

    def more(self) -> bool:
        """Add the next lines to the rest of the current piece; False at the end of the file."""
        held = [self.text[self.at :], self._begun]
        size = len(self._begun)
        self._begun = ""
        for piece in self._pieces:
            end = piece.rfind("\n") + 1
            held.append(piece[:end] if end else piece)
            size += end or len(piece)
            if end:
                self._begun = piece[end:]
                break
            if size > LONGEST_LINE:
                raise too_long(self.path, self.number + held[0].count("\n") + 1)
        left, self.text = len(held[0]), "".join(held)
        self.at, self.piece = 0, self.piece + 1
        return len(self.text) > left

    def sample(self, count: int) -> list[str]:
        """The next lines, which are not taken."""
        while self.text.count("\n", self.at) < count and len(self.text) - self.at < LONGEST_LINE and self.more():
            pass
        return list(islice(io.StringIO(self.text[self.at :], newline="\n"), count))

    def take(self, lines: int) -> None:
        """The next lines of the piece have been read."""
        for _ in range(lines):
            self.at = (self.text.find("\n", self.at) + 1) or len(self.text)
        self.number += lines

    def __iter__(self) -> Iterator[str]:
        while self.at < len(self.text) or self.more():
            start = self.at
            self.take(1)
            line = self.text[start : self.at]
            self.row.append(line)
            self.size += 64 + len(line)  # what a line takes, since those of a row are held
            if self.size > LONGEST_LINE:
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

    def learn(self, text: str) -> None:
        """Note whether some whole lines have a quoted field in which a quote is doubled."""
        self.doubles = self.doubles or doubled_quote(self.delimiter).search(text) is not None

    def lost_end(self, text: str) -> int:
        """Where in some whole lines a quote stands that no such file has inside a field without quotes; -1 for none."""
        bare = bare_quote(self.delimiter).search(text) if self.doubles else None
        return -1 if bare is None else bare.start()

    def unclosed(self) -> InputError:
        """The error for the quote that swallowed everything up to here."""
        line = self.first + open_quote("".join(self.row), self.delimiter)
        return InputError(
            f'{self.path}, line {line}: the quote (") opened here is never closed. '
            'Close it, or write "" for a quote inside a quoted field.'
        )


def open_delimited(path: Path, pieces: Iterator[str], delimiter: str | None, tabs: bool, bad: BadRows) -> OpenTable:
    """Read the header of a delimited file and return its columns and rows.

    `delimiter` None tries , ; tab and | ; `tabs` says that the extension promises tabs.  Raises InputError for a header
    that is none, and through `bad` for malformed rows.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InputError(f"the delimiter must be one character such as , or ; but it is {delimiter!r}.")
    feed = _Lines(path, pieces)
    sample = feed.sample(SNIFF_ROWS * 4)
    if not any(line.strip() for line in sample):
        raise InputError(f"{path}: this file has no rows; expected a header line and rows below it.")
    separator = re.fullmatch(r"sep=(.)\r?\n?", sample[0])  # as Excel writes
    if separator:
        delimiter, sample = delimiter or separator[1], sample[1:]
    if sample and are_tagged(sample[0]) and (evidence := tagged(sample)):
        raise InputError(
            f"{path}: {evidence}: these are tagged tokens (CoNLL, IOB) without a header. Call the file .conll to train "
            "on the tags, or .txt and use --task language_modeling to read it as plain text."
        )
    feed.delimiter = chosen = delimiter or sniff(sample, "\t" if tabs else ",")
    feed.take(1 if separator else 0)
    feed.learn("".join(sample))
    _, header = next(filter(None, _records(feed, bad)), (1, []))
    columns = [cell.strip() for cell in header]
    check_header(path, feed.first, columns, chosen, delimiter)
    columns = check_columns(path, feed.first, columns, lenient(sample, chosen))
    return OpenTable(columns, _chunks(feed, columns, bad))


def sniff(sample: list[str], preferred: str = ",") -> str:
    """The delimiter that cuts most rows of the sample into as many fields as the first; `preferred` when none does."""
    scores = {preferred: 0.0}
    for delimiter in sorted(DELIMITERS, key=lambda candidate: candidate != preferred):
        counts = [len(row) for row in lenient(sample, delimiter) if row]
        if len(counts) > 2 and len(sample) >= SNIFF_ROWS * 4:
            counts.pop()  # the sample may end in the middle of a row
        counts = counts[:SNIFF_ROWS]
        if counts and counts[0] > 1:
            scores[delimiter] = sum(count == counts[0] for count in counts) / len(counts)
    return max(scores, key=scores.__getitem__)


def _plain_columns(feed: _Lines, columns: list[str]) -> list[list[str]] | None:
    """The columns of the whole current piece, if no row in it needs a closer look; else None.

    There is no quote in it, every line ends in "\\n" and has as many fields as there are columns: a line end that is
    not in the last field of its row would show.
    """
    text, count = feed.text[feed.at :], len(columns)
    if '"' in text or "\r" in text or "\0" in text or not text.endswith("\n") or len(text) > LONGEST_LINE:
        return None
    cells = text.replace("\n", "\n" + feed.delimiter).split(feed.delimiter)
    del cells[-1]  # after the last line end
    values = [cells[at::count] for at in range(count)]
    rows = len(values[0])
    values[-1] = "".join(values[-1]).split("\n")
    del values[-1][-1]
    if len(cells) != rows * count or len(values[-1]) != rows or text.count("\n") != rows:
        return None
    if (count == 1 and "" in values[0]) or columns[0] in map(str.strip, values[0]):  # a blank line, the header again
        return None
    return values


def _blocks(feed: _Lines, bad: BadRows) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Rows of the current piece with their numbers, many at a time; blank lines are left out."""
    numbers, rows = _usual_rows(feed)
    if rows:
        yield numbers, rows
    piece = feed.piece
    for record in _records(feed, bad) if feed.at < len(feed.text) else ():
        if record:
            yield [record[0]], [record[1]]
        if feed.piece != piece or feed.at == len(feed.text):
            break


def _usual_rows(feed: _Lines) -> tuple[Sequence[int], list[list[str]]]:
    """Rows from the current piece, up to the first that is malformed, unusually long or not whole."""
    text, first = feed.text[feed.at :], feed.rows + 1
    if "\0" in text or len(text) > LONGEST_LINE:
        return [], []
    rows, ends = list[list[str]](), [0]
    reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=feed.delimiter, strict=True)
    with contextlib.suppress(csv.Error):
        for row in reader:
            rows.append(row)
            ends.append(reader.line_num)
    feed.learn(text)
    lost = feed.lost_end(text)
    lost_line = -1 if lost < 0 else text.count("\n", 0, lost)
    lines = text.split("\n") if ends[-1] > len(rows) else []
    for at, (start, end) in enumerate(pairwise(ends)):
        if start <= lost_line < end or (end > start + 1 and as_rows(lines[start:end], rows[at], feed.delimiter)):
            del rows[at:], ends[at + 1 :]
            break
    feed.take(ends[-1])
    feed.rows += len(rows)
    if all(rows):
        return range(first, first + len(rows)), rows
    return [first + at for at, row in enumerate(rows) if row], [row for row in rows if row]


def _records(feed: _Lines, bad: BadRows) -> Iterator[tuple[int, list[str]] | None]:
    """Rows with their numbers, one by one; None for a blank line, and for a row that is left out.

    The limit of the csv module on the length of a field holds for the whole process; it is raised here, never lowered.
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    reader = csv.reader(feed, delimiter=feed.delimiter, strict=True)
    while True:
        feed.begin()
        try:
            row = next(reader)
            problem = _problem(feed, row)
        except StopIteration:
            return
        except csv.Error as error:
            row, problem = [], _malformed(feed, str(error))
        feed.rows += 1
        if problem:
            bad.add(feed.rows, problem)
        yield (feed.rows, row) if row and not problem else None


def _malformed(feed: _Lines, error: str) -> str:
    """What is wrong with a row, by the error of the csv reader.  Raises InputError for a quote that is never closed."""
    if "new-line character" in error:
        return 'the row contains a carriage return. Save the file with "\\n" line ends, or quote the field.'
    if "unexpected end" in error or len(feed.row) > 1:
        raise feed.unclosed()
    reason = 'a closing quote (") is followed by more text. Write "" for a quote inside a quoted field'
    return f"{reason}, or pass --on-bad-row skip."


def _problem(feed: _Lines, row: list[str]) -> str:
    """What is wrong with a row that the csv reader has read, "" for nothing.  Raises InputError for swallowed rows."""
    if len(feed.row) == 1 and "\0" in feed.row[0]:
        column = feed.row[0].index("\0") + 1
        return f"a NUL byte at column {column}; expected text. Remove it and run again."
    if len(feed.row) > 1:
        _check_long_row(feed, row)
    if feed.lost_end("".join(feed.row)) < 0:
        return ""
    reason = 'a quote (") inside a field that does not begin with one, where this file writes a quote as "".'
    return f"{reason} Is a delimiter or a line end missing? Mend the row, or pass --on-bad-row skip."


def _check_long_row(feed: _Lines, row: list[str]) -> None:
    """Refuse NULs, and a quote that closes after it has swallowed rows."""
    line = feed.first
    for cell in row:
        if "\0" in cell:
            at = line + cell.count("\n", 0, cell.index("\0"))
            raise InputError(f"{feed.path}, line {at}: a NUL byte; expected text. Remove it and run again.")
        line += cell.count("\n")
    first, lines = feed.first, list(feed.row)
    if rows := as_rows(lines, row, feed.delimiter):
        usual = [*feed.known[: SNIFF_ROWS * 4], *lenient(feed.sample(SNIFF_ROWS * 4), feed.delimiter), row]
        inside = rows[1:-1] or rows  # the first and the last have a cell with the quote
        fit = [*map(fits_columns([one for one in usual if len(one) == len(row)], rows), inside)]
        if sum(fit) >= ROWS_AMONG * len(fit):
            raise InputError(
                f'{feed.path}, line {first}: the quote (") opened here closes only '
                f"{counted(len(lines) - 1, 'line')} later, and these lines look like rows. Remove it, or close it "
                "where its field ends; if the lines are one text, save the table as .jsonl."
            )


def _chunks(feed: _Lines, columns: list[str], bad: BadRows) -> Iterator[Chunk]:
    """The rows that have a value for every column."""
    unsure = {at: name for at, name in enumerate(columns) if name and name.casefold() not in HEADER_NAMES}
    while feed.at < len(feed.text) or feed.more():
        if len(feed.known) == LOOKED_AT and (values := _plain_columns(feed, columns)) is not None:
            first, count = feed.rows + 1, len(values[0])
            feed.at, feed.number, feed.rows = len(feed.text), feed.number + count, feed.rows + count
            yield Chunk(dict(zip(columns, values, strict=True)), range(first, first + count))
            continue
        for numbers, rows in _blocks(feed, bad):
            if problems := {at: problem for at, row in enumerate(rows) if (problem := _row_problem(row, columns))}:
                for at, problem in problems.items():
                    bad.add(numbers[at], problem)
                kept = [at for at in range(len(rows)) if at not in problems]
                numbers, rows = [numbers[at] for at in kept], [rows[at] for at in kept]
            new = rows[: LOOKED_AT - len(feed.known)]
            if len(columns) > 1 and any(row[at].strip() == name for row in new for at, name in unsure.items()):
                raise no_header(feed.path, 1, columns)
            feed.known += new
            if rows:
                yield chunk_of(columns, rows, numbers)


def _row_problem(row: list[str], columns: list[str]) -> str:
    """What is wrong with a row that has not a value for every column, or repeats the header; "" for any other."""
    have, want = len(row), len(columns)
    if have == want:
        repeats = want > 1 and row[0].strip() == columns[0] and [cell.strip() for cell in row] == columns
        return "this row repeats the header. Remove it." if repeats else ""
    fields = f"this row has {counted(have, 'field')}, the header has {want}"
    if have < want:
        names = some([repr(name) for name in columns[have:]])
        return f"{fields}: no value for {names}. Add what is missing, or pass --on-bad-row skip."
    return f"{fields}. Put quotes around a field that holds the delimiter, or pass --on-bad-row skip."
