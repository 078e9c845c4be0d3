"""Tables in chunks: what is read piece by piece is what would be read at once, line numbers included."""

import csv
from pathlib import Path

import numpy as np
import pytest

from headway.data.open import files, read
from headway.data.records import table
from headway.data.records.rows import LineNumbers, chunked
from headway.data.records.table import Table
from headway.errors import InputError

QUOTED = ['"one, two"', '"first\nsecond"', '"a ""word"""', "plain", " blank around ", "é"]


def written(path: Path, count: int, end: str = "\n") -> Path:
    """A table whose quoted cells and blank lines are few and far between."""
    lines = ["text,label"]
    for i in range(count):
        lines.append(f"{QUOTED[i % len(QUOTED)] if i % 37 == 5 else f'row {i} of many'},class{i % 3}")
        lines += [""] if i % 401 == 7 else []
    path.write_bytes((end.join(lines) + end).encode())
    return path


def table_of(path: Path, **options: str) -> Table:
    found = read.read([path], **options)
    assert isinstance(found, Table)
    return found


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [50, 700, 1 << 20])
def test_a_table_is_the_same_in_pieces_of_any_size(tmp_path, monkeypatch, end, block):
    path = written(tmp_path / "t.csv", 3000, end)
    whole = table_of(path)
    monkeypatch.setattr(files.blocks, "__defaults__", (block,))
    monkeypatch.setattr(table, "HELD", 0)
    found = table_of(path)
    assert len(list(found.chunks())) > (block < 1000)
    assert found.rows == whole.rows and found.row_numbers == whole.row_numbers and len(found) == 3000
    assert found.fingerprint == whole.fingerprint and found.judged() == whole.judged()
    with path.open(newline="") as file:
        shown = list(csv.reader(file))  # as a spreadsheet shows it
    assert all(shown[found.row_numbers[row] - 1][0] == f"row {row} of many" for row in (0, 8, 1001, 2999))
    assert found.rows[7]["text"] == "row 7 of many" and found.rows[3]["text"] == "row 3 of many"  # backwards too


def test_texts_are_found_by_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "HELD", 0)
    monkeypatch.setattr(files.blocks, "__defaults__", (300,))
    found = table_of(written(tmp_path / "t.csv", 900))
    index = np.array([0, 5, 6, 333, 334, 899])
    assert list(found.texts("text", index)) == [found.column("text")[i] for i in index]
    assert list(found.texts("text", index[:0])) == []
    with pytest.raises(InputError, match="no column 'tekst'; found: text, label"):
        found.values("tekst")


def test_a_file_that_changes_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "HELD", 0)
    path = written(tmp_path / "t.csv", 100)
    found = table_of(path)
    written(path, 101)
    with pytest.raises(InputError, match="changed while it was in use"):
        list(found.chunks())


def test_line_numbers_are_runs():
    numbers = LineNumbers()
    for part in ([2, 3, 4], range(5, 9), [10, 12, 13], [1], []):
        numbers.extend(part)
    whole = [2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 1]
    assert numbers == whole and numbers[-1] == 1 and numbers[2:4] == [4, 5] and len(numbers) == len(whole)
    with pytest.raises(IndexError):
        numbers[len(whole)]


def test_rows_that_come_one_by_one_are_chunks():
    parts = list(chunked(["a", "b"], ((i, [str(i), "x" * 1000]) for i in range(10_000))))
    assert [len(part) for part in parts] == [4179, 4178, 1643] and sum(map(len, parts)) == 10_000
    assert parts[1].columns["a"][0] == "4179" and parts[1].numbers[0] == 4179
