"""Tables with planted faults: what is read equals the rows that were meant, or a message names the row."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from planted_tables import AS_TEXT, REAL, TABLES, write

from headway.data.open.read import read
from headway.data.records.label_typing import Merging
from headway.data.records.labels import labelled
from headway.data.records.table import Table


def meant(path: Path) -> list[dict[str, str]]:
    stem = path.name.split(".")[0]
    return json.loads((path.parent / f"{stem}.meant.json").read_text())["rows"]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_as_it_was_meant_or_its_row_is_named(
    name: str, tmp_path: Path, in_process: Callable, tiny_words: list[str]
):
    made, path = TABLES[name], write(name, tmp_path)
    words = ["train", path, "--out", tmp_path / "run", *tiny_words, *made.options]
    status, _, err = in_process(*words, "--plan")
    if made.refused:
        assert status == 2 and path.name in err and made.refused in err, (status, err)
        assert "Traceback" not in err and len(err.splitlines()) < 10
        return
    assert status == 0, err
    table = read([path], **made.reading)  # type: ignore[arg-type]
    assert isinstance(table, Table)
    rows = [{column: row[column] for column in made.header} for row in table.rows]
    if made.header[-1] == "label":
        found = labelled(table, "text", "label", merging=Merging(as_text=made.options[-1:] == AS_TEXT))
        rows = [{"text": text, "label": label} for text, label in zip(found, found.labels, strict=True)]
    assert rows == meant(path)


@pytest.mark.parametrize("name", REAL)
def test_a_model_of_a_table_answers_each_row_that_was_meant(
    name: str, tmp_path: Path, in_process: Callable, tiny_words_but: Callable
):
    made, path, out, to = TABLES[name], write(name, tmp_path), tmp_path / "run", tmp_path / "out.csv"
    words = [*tiny_words_but(steps=2), "--json", *made.options]
    status, printed, err = in_process("train", path, "--out", out, *words)
    assert status == 0, err
    rows = meant(path)
    facts = json.loads((out / "headway.json").read_text())
    assert sum(facts["data"]["classes"].values()) == len(rows) and json.loads(printed)["steps"] == 2
    assert set(facts["labels"]) == {row["label"] for row in rows}
    status, _, err = in_process("classify", out, path, "--to", to)
    assert status == 0, err
    with to.open(encoding="utf-8", newline="") as file:
        answers = list(csv.DictReader(file))
    assert [(row["text"], row["given: label"]) for row in answers] == [(row["text"], row["label"]) for row in rows]
    assert {row["label"] for row in answers} <= {*facts["labels"], ""}  # empty: none of its words is known
    status, _, err = in_process("classify", out, to, "--to", tmp_path / "again.csv")
    assert status == 0 and len(read([tmp_path / "again.csv"]).rows) == len(rows), err  # type: ignore[union-attr]
    refused = write("stray quotes two rows apart", tmp_path)
    for verb in ("classify", "evaluate"):
        status, _, err = in_process(verb, out, refused)
        assert status == 2 and "line 12: the quote" in err, err
