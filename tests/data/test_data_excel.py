"""Spreadsheets in and out: what is read, what is refused with its cell, and that texts stay texts."""

import datetime
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.data.formats import excel
from headway.data.formats.excel import write_excel
from headway.data.open.read import read, read_rows
from headway.errors import InputError

calamine = pytest.importorskip("python_calamine")
xlsxwriter = pytest.importorskip("xlsxwriter")


def workbook(path: Path, rows: list[list[Any]], change: Callable[[Any, Any], None] = lambda book, sheet: None) -> Path:
    with xlsxwriter.Workbook(str(path), {"default_date_format": "yyyy-mm-dd", "strings_to_formulas": False}) as book:
        sheet = book.add_worksheet("Tickets")
        for number, row in enumerate(rows):
            sheet.write_row(number, 0, row)
        change(book, sheet)
    return path


def test_cells_are_read_as_people_see_them(tmp_path: Path):
    rows = [
        ["text", "n", "when", "yes"],
        ["one two", 3, datetime.date(2024, 1, 2), True],
        ["=no formula", 2.5, None, None],
    ]

    def formula(book: Any, sheet: Any) -> None:
        sheet.write_formula(3, 1, "=B2*2", None, 6)
        sheet.write_string(3, 0, "four")
        book.add_worksheet("empty")

    table = read_rows(workbook(tmp_path / "a.xlsx", rows, formula))
    assert [list(row.values()) for row in table] == [
        ["one two", "3", "2024-01-02", "true"],
        ["=no formula", "2.5", "", ""],
        ["four", "6", "", ""],
    ]
    assert table.place(1) == "row 3"


def two_sheets(book: Any, sheet: Any) -> None:
    book.add_worksheet("Archive").write(0, 0, "text")


REFUSED: dict[str, tuple[list[list[Any]], Callable[[Any, Any], None], str]] = {
    "two sheets": (
        [["text", "n"], ["a", 1]],
        two_sheets,
        "2 sheets hold something: 'Tickets', 'Archive'; keep the one",
    ),
    "nothing": ([], lambda book, sheet: None, "no sheet holds anything"),
    "merged cells": (
        [["text", "n"], ["a", 1]],
        lambda book, sheet: sheet.merge_range("A3:A5", "b"),
        "row 3: cells are merged from A3 on; unmerge them",
    ),
    "no name": ([["text", "", "n"], ["a", "b", 1]], lambda book, sheet: None, "cell B1 has no name for its column"),
    "two of one name": ([["text", "text"], ["a", "b"]], lambda book, sheet: None, "two columns 'text'"),
    "a cell too many": (
        [["text", "n"], ["a", 1, "x"]],
        lambda book, sheet: None,
        "row 2: has a cell beyond the 2 columns",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_be_read_wrongly_is_refused(what: str, tmp_path: Path):
    rows, change, said = REFUSED[what]
    with pytest.raises(InputError) as raised:
        list(read_rows(workbook(tmp_path / "a.xlsx", rows, change)))
    assert said in str(raised.value)


def test_a_formula_without_a_value_is_refused(tmp_path: Path):
    whole = workbook(
        tmp_path / "a.xlsx", [["text", "n"], ["a", 1]], lambda _, sheet: sheet.write_formula("B3", "=B2*2", None, 7)
    )
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as new:
        for name in old.namelist():  # as openpyxl writes it
            new.writestr(name, old.read(name).replace(b"<v>7</v>", b"<v></v>"))
    with pytest.raises(InputError, match="cell B3 has a formula without a value; save the file"):
        read_rows(tmp_path / "b.xlsx")


def test_what_unpacks_to_too_much_or_is_damaged_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = workbook(tmp_path / "a.xlsx", [["text", "n"], ["a", 1]])
    monkeypatch.setattr(excel, "MOST", 1000)
    with pytest.raises(InputError, match=r"this workbook unpacks to .* kB, more than"):
        read_rows(file)
    monkeypatch.undo()
    content = bytearray(file.read_bytes())
    content[200:230] = bytes(30)
    (tmp_path / "b.xlsx").write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        read_rows(tmp_path / "b.xlsx")
    (tmp_path / "c.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(InputError, match="cannot be read"):
        read_rows(tmp_path / "c.xls")


def test_a_model_is_trained_on_a_sheet_and_its_answers_go_into_one(tmp_path: Path, in_process: Callable):
    rows = [["text", "label"], *([f"{'great' if n % 2 else 'awful'} {n}", "ab"[n % 2]] for n in range(60))]
    rows[3][0] = "=great 1"
    file = workbook(tmp_path / "a.xlsx", rows)
    assert read(file).columns == ["text", "label"]
    headway.train(file, out=tmp_path / "run", steps=2, d_model=16, layers=1, heads=2, threads=1, quiet=True)
    for ending in ("xlsx", "parquet", "tsv"):
        to = tmp_path / f"answers.{ending}"
        status, _, err = in_process("predict", tmp_path / "run", file, "--to", to)
        assert status == 0, err
        found = list(read_rows(to))
        assert len(found) == 60 and [row["given: label"] for row in found] == [row[1] for row in rows[1:]]
        assert found[2]["text"] == "=great 1" and 0 < float(found[0]["score"]) <= 1
    (sheet,) = calamine.load_workbook(str(tmp_path / "answers.xlsx")).sheet_names
    cells = calamine.load_workbook(str(tmp_path / "answers.xlsx")).get_sheet_by_name(sheet).to_python()
    assert cells[3][0] == "=great 1" and isinstance(cells[1][2], float)


def test_what_a_sheet_cannot_hold_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="row 2: a cell has 40,000 characters"):
        write_excel(tmp_path / "a.xlsx", ["text"], [["x" * 40_000]])


def test_empty_rows_and_columns_may_stand_before_the_table(tmp_path: Path):
    with xlsxwriter.Workbook(str(tmp_path / "t.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.write_row(3, 2, ["text", "label"])
        for number in range(30):
            sheet.write_row(4 + number, 2, [f"words number {number}", "ab"[number % 2]])
        sheet.write(10, 4, "beyond")
    with pytest.raises(InputError, match="row 11: has a cell beyond the 2 columns"):
        read([tmp_path / "t.xlsx"])
    with xlsxwriter.Workbook(str(tmp_path / "t.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.write_row(3, 2, ["text", "", "label"])
        sheet.write_row(4, 2, ["words", "b", "a"])
    with pytest.raises(InputError, match="cell D4 has no name for its column"):
        read([tmp_path / "t.xlsx"])


def test_an_unnamed_column_without_anything_is_left_out(tmp_path: Path):
    path = workbook(tmp_path / "a.xlsx", [["text", None, "n"], ["one", None, 1], ["two", None, 2]])
    assert list(read_rows(path)) == [{"text": "one", "n": "1"}, {"text": "two", "n": "2"}]
    path = workbook(tmp_path / "b.xlsx", [["text", None, "n"], ["one", None, 1], ["two", "more", 2]])
    with pytest.raises(InputError, match="cell B1 has no name for its column"):
        read_rows(path)


def test_a_title_above_the_table_is_named(tmp_path: Path):
    path = workbook(tmp_path / "a.xlsx", [["Report", 2024, "Q1"], [], ["text", "q", "n"], ["one", "a", 1]])
    with pytest.raises(InputError, match="row 2 is empty; delete what is above the row that names the columns"):
        read_rows(path)


def test_durations_are_hours_and_errors_are_said_to_be_empty(tmp_path: Path):
    def change(book: Any, sheet: Any) -> None:
        hours = book.add_format({"num_format": "[h]:mm"})
        sheet.write_row(0, 0, ["text", "took", "n"])
        for at, took in enumerate((1.1, 0.25), 1):
            sheet.write_row(at, 0, [f"text {at}", took], None)
            sheet.write(at, 1, took, hours)
        sheet.write_formula(1, 2, "=1/0", None, "#DIV/0!")

    path = workbook(tmp_path / "a.xlsx", [], change)
    with pytest.warns(UserWarning, match="cell C2 holds an error such as #DIV/0!; such cells are read as empty"):
        rows = list(read_rows(path))
    assert [row["took"] for row in rows] == ["26:24:00", "6:00:00"] and rows[0]["n"] == ""
