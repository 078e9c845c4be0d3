"""Tables as spreadsheets and shops export them: read as they are meant, or refused with what to do."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.data.open.read import read
from headway.data.records.labels import labelled
from headway.errors import InputError
from headway.workflows.input import detect

WORDS = ["the", "phone", "is", "great", "but", "its", "battery", "died", "after", "two", "days"]
draw = random.Random(2)
ROWS = [(f"{' '.join(draw.choices(WORDS, k=8))} {i}", ("good", "bad", "fine")[i % 3]) for i in range(90)]


def rows(form: str) -> str:
    return "".join(form.format(text, label) for text, label in ROWS)


DOUBLED = 'text,label\n"it said ""hello"",\nand died",good\n'
BARE = r'a quote \("\) inside a field that does not begin with one'
READ = {
    "a line for Excel": "sep=;\r\ntext;label\r\n" + rows("{};{}\r\n"),
    "a byte order mark": "\ufefftext;label\r\n" + rows("{};{}\r\n"),
    "empty columns at the end": "text,label,,\n" + rows("{},{},,\n"),
    "an empty column at the end": "text,label,\n" + rows("{},{},\n"),
    "blank lines": "\n\ntext,label\n\n" + rows("{},{}\n\n"),
    "empty rows at the end": "text,label\n" + rows("{},{}\n") + ",\n" * 12,
    "blanks in the header": " text , label \n" + rows("{} , {} \n"),
    "a number for each row": ",text,label\n" + rows("7,{},{}\n"),
    "inches": "text,label\n" + rows('5" {},{}\n'),
    "inches beside empty cells in quotes": "text,label,more\n" + rows('5" {},{},""\n'),
    "doubled quotes": "text,label\n" + rows('"{}",{}\n'),
}


@pytest.mark.parametrize("name", READ)
def test_exports_are_read_as_they_are_meant(name: str, tmp_path: Path):
    path = tmp_path / "export.csv"
    path.write_text(READ[name], encoding="utf-8", newline="")
    source = read(path)
    found = detect(source)
    assert (found.task, found.text_column, found.label_column) == ("classification", "text", "label")
    given = labelled(source, "text", "label")
    assert len(given) == 90 and given.labels[1] == "bad" and given.texts[1].strip().endswith(ROWS[1][0])


REFUSED = {
    "a title": ("Reviews of May,\n,\ntext,label\n" + rows("{},{}\n"), r"line 1: 'Reviews of May' has no other names"),
    "whole rows in quotes": ('"text,""label"""\n' + rows('"{},""{}"""\n'), "line 1: the whole row is one field"),
    "columns without names": ("text,,\n" + rows("{},{},x\n"), "line 1"),
    "a stray quote": ("text,label\n" + rows("{},{}\n") + '"great" phone,good\n', "row 92: a closing quote.*skip"),
    "a lost line end": (DOUBLED + ROWS[0][0] + ",good" + DOUBLED[11:] + rows("{},{}\n"), f"row 3: {BARE}.*skip"),
    "a lost line end before quotes": (
        DOUBLED + ROWS[0][0] + ',good"""Ha"",\nit said",bad\n' + rows("{},{}\n"),
        f"row 3: {BARE}.*skip",
    ),
    "a lost delimiter": (DOUBLED + rows("{},{}\n") + f'{ROWS[0][0]}"good, not bad"\n', f"row 93: {BARE}.*skip"),
    "a sum": ("text,label\n" + rows("{},{}\n") + "Total: 90,\n", r"1 row has no label .*row 92.*--on-bad-row skip"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused(name: str, tmp_path: Path):
    path = tmp_path / "export.csv"
    path.write_text(REFUSED[name][0], newline="")
    with pytest.raises(InputError, match=REFUSED[name][1]):
        source = read(path)
        labelled(source, "text", detect(source).label_column or "")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_rows_without_a_label_are_left_out_where_that_is_asked_for(
    ending: str, tmp_path: Path, in_process: Callable, tiny_words: list[str]
):
    path, out = tmp_path / f"reviews.{ending}", tmp_path / "run"
    holes = [(text, "" if i % 9 == 4 else label) for i, (text, label) in enumerate(ROWS)]
    if ending == "csv":
        path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in holes))
    else:
        path.write_text("".join(json.dumps({"text": text, "label": label or None}) + "\n" for text, label in holes))
    words = ["train", path, "--out", out, *tiny_words]
    status, _, err = in_process(*words)
    first = "rows 6" if ending == "csv" else "lines 5"
    assert status == 2 and f"10 rows have no label in column 'label' ({first}, " in err
    status, _, err = in_process(*words, "--on-bad-row", "skip")
    assert status == 0 and "10 rows without text or label left out" in err
    assert in_process("evaluate", out)[0] == 0
    status, _, err = in_process("evaluate", out, path, "--on-bad-row", "error")
    assert status == 2 and "no label" in err
