"""Spreadsheets: .xlsx, .xlsm, .xls and .ods, read by python-calamine, and .xlsx written by XlsxWriter."""

import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any

from headway.data.formats.json_lines import text_of
from headway.data.open.files import Tally
from headway.data.records.rows import ROWS, BadRows, OpenTable, occurs_twice, tallied
from headway.errors import InputError
from headway.io.quantities import size

EXTRA = "{0}: spreadsheets need python-calamine and XlsxWriter: pip install 'headway[xlsx]'."
MOST = 1 << 30
"""Bytes that a workbook may unpack to: all of it is held in memory."""
BLOCK = 1 << 20
UNSAVED = re.compile(rb'<c r="([A-Z]+[0-9]+)"[^>]*><f[^>]*(?:/>|>[^<]*</f>)(?:<v */>|<v></v>)?</c>')
"""A cell with a formula and without a value."""
ERROR = re.compile(rb'<c r="([A-Z]+[0-9]+)"[^>]* t="e"')
"""A cell with an error for a value."""
EXACT = 2**53
"""Whole numbers below are held exactly, as real ones; others are written as texts."""
MOST_ROWS, MOST_CHARACTERS = 1_048_576, 32_767
"""Rows of a sheet of .xlsx, and characters of a cell."""


def open_excel(path: Path, bad: BadRows, tally: Tally | None) -> OpenTable:
    """The only sheet of a workbook that holds anything; its first row names the columns.

    Raises InputError for a workbook with several such sheets or with merged cells, for one that is damaged or unpacks
    to more than ``MOST`` bytes, and for a formula without a value.
    """
    if path.name.lower().endswith(".gz"):
        raise InputError(f"{path}: a spreadsheet is compressed by itself; unpack it first.")
    try:
        import python_calamine as calamine
    except ImportError:
        raise InputError(EXTRA.format(path)) from None
    _check_packed(path)
    try:
        book = calamine.load_workbook(str(path))
        sheets = [sheet for name in book.sheet_names if (sheet := book.get_sheet_by_name(name)).height]
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise InputError(f"{path}: this spreadsheet cannot be read ({error}); save it again.") from None
    if not sheets:
        raise InputError(f"{path}: no sheet holds anything.")
    if len(sheets) > 1:
        names = ", ".join(repr(sheet.name) for sheet in sheets[:10])
        raise InputError(f"{path}: {len(sheets)} sheets hold something: {names}; keep the one to read.")
    (sheet,) = sheets
    if merged := getattr(sheet, "merged_cell_ranges", None):
        (row, column), _ = merged[0]
        raise InputError(f"{path}, row {row + 1}: cells are merged from {_letters(column)}{row + 1} on; unmerge them.")
    left = (sheet.start or (0, 0))[1]  # the rows begin with the first one, their cells with the first that is filled
    rows = dropwhile(lambda row: not any(cell != "" for cell in row[1]), enumerate(sheet.iter_rows(), 1))
    top, first = next(rows)
    header = [text_of(_plain(cell)).strip() for cell in first]
    while header and not header[-1]:
        header.pop()
    unnamed = [at for at, name in enumerate(header) if not name]
    below = islice(sheet.iter_rows(), top, None)
    if not any(cell != "" for cell in next(below, [""])) and any(cell != "" for row in below for cell in row):
        raise InputError(f"{path}: row {top + 1} is empty; delete what is above the row that names the columns.")
    for row in islice(sheet.iter_rows(), top, None) if unnamed else ():
        if filled := [at for at in unnamed if row[at] != ""]:
            cell = f"{_letters(left + filled[0])}{top}"
            raise InputError(f"{path}: cell {cell} has no name for its column; the first row names the columns.")
    columns = [name for name in header if name]
    if (twice := occurs_twice(columns)) is not None:
        raise InputError(f"{path}: has two columns {twice!r}; every column needs its own name.")
    return OpenTable(columns, tallied(columns, _parts(header, rows, bad), bad, tally))


def _check_packed(path: Path) -> None:
    """Raise InputError for an archive that unpacks to too much, or whose parts are not as large as it says."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            whole = sum(part.file_size for part in archive.infolist())
            if whole > MOST:
                much = f"{size(whole)}, more than {size(MOST)}"
                raise InputError(f"{path}: this workbook unpacks to {much}; save it as .csv.")
            for part in archive.infolist():
                with archive.open(part) as file:
                    _check_cells(path, part.filename, iter(partial(file.read, BLOCK), b""))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: this workbook is damaged or encrypted ({error}); save it again.") from None


def _check_cells(path: Path, name: str, blocks: Iterable[bytes]) -> None:
    """Raise InputError for a formula without a value, and warn of an error."""
    before, error = b"", None
    for block in blocks:
        before = (before[-4096:] + block) if "worksheets/" in name else b""
        if unsaved := UNSAVED.search(before):
            what = "has a formula without a value; save the file in a spreadsheet program."
            raise InputError(f"{path}: cell {unsaved[1].decode()} {what}")
        error = error or ERROR.search(before)
    if error:
        cell = error[1].decode()
        warnings.warn(f"{path}: cell {cell} holds an error such as #DIV/0!; such cells are read as empty", stacklevel=2)


def _parts(
    header: list[str], rows: Iterator[tuple[int, Sequence[Any]]], bad: BadRows
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Some rows at a time: their numbers, and the cells of each column that has a name."""
    while part := list(islice(rows, ROWS)):
        kept = []
        for number, cells in part:
            texts = [text_of(_plain(cell)) for cell in cells]
            if any(texts[len(header) :]):
                bad.add(number, f"has a cell beyond the {len(header)} columns that the first row names.")
            else:
                kept.append((number, texts))
        columns = [[texts[at] for _, texts in kept] for at, name in enumerate(header) if name]
        yield [number for number, _ in kept], columns


def _plain(cell: Any) -> Any:
    """A cell as text or number: dates as in ISO 8601, durations as 26:24:00; whole numbers are stored as real ones."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < EXACT:
        return int(cell)
    if isinstance(cell, timedelta):
        minutes, seconds = divmod(round(abs(cell.total_seconds())), 60)
        return f"{'-' * (cell < timedelta())}{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return cell.isoformat() if hasattr(cell, "isoformat") else cell


def _letters(column: int) -> str:
    """The name of a column by its number from 0: A, B, ..., Z, AA."""
    name = ""
    while column >= 0:
        name, column = chr(ord("A") + column % 26) + name, column // 26 - 1
    return name


def writer(path: Path) -> Any:
    """What writes spreadsheets.  Raises InputError where it is not installed."""
    try:
        import xlsxwriter
    except ImportError:
        raise InputError(EXTRA.format(path)) from None
    return xlsxwriter


def write_excel(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a workbook with one sheet, row by row.  Texts are texts, also those that begin as a formula does.

    Raises InputError for what .xlsx cannot hold.
    """
    options = {"constant_memory": True, "nan_inf_to_errors": True}
    with writer(path).Workbook(str(path), options) as book:
        sheet = book.add_worksheet()
        _write_row(path, sheet, 0, columns)
        for number, row in enumerate(rows, 1):
            if number >= MOST_ROWS:
                raise InputError(f"{path}: a sheet has at most {MOST_ROWS:,} rows; write .csv or .parquet.")
            _write_row(path, sheet, number, row)


def _write_row(path: Path, sheet: Any, number: int, row: Sequence[Any]) -> None:
    for at, value in enumerate(row):
        if isinstance(value, bool):
            sheet.write_boolean(number, at, value)
        elif isinstance(value, int | float) and abs(value) < EXACT:
            sheet.write_number(number, at, value)
        elif value not in (None, ""):
            text = str(value)
            if len(text) > MOST_CHARACTERS:
                raise InputError(
                    f"{path}, row {number + 1}: a cell has {len(text):,} characters, and one of .xlsx at most "
                    f"{MOST_CHARACTERS:,}; write .csv or .parquet."
                )
            sheet.write_string(number, at, text)
