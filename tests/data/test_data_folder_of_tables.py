"""A folder of tables is read as one table."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.data.open.read import read
from headway.data.records.table import Table
from headway.errors import InputError

ROWS = [(f"the old cat number {i} sat", "pos" if i % 2 else "neg") for i in range(60)]


def delimited(rows: list[tuple[str, str]], sep: str) -> str:
    return "".join(f"{text}{sep}{label}\n" for text, label in [("text", "label"), *rows])


WRITERS: dict[str, Callable[[list[tuple[str, str]]], str]] = {
    "csv": lambda rows: delimited(rows, ","),
    "tsv": lambda rows: delimited(rows, "\t"),
    "jsonl": lambda rows: "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows),
}


def shards(folder: Path, ending: str) -> Path:
    """Two tables, one of them compressed, and what other programs leave next to them."""
    (folder / "sub").mkdir(parents=True)
    (folder / f"a.{ending}").write_text(WRITERS[ending](ROWS[:40]))
    (folder / "sub" / f"b.{ending}.gz").write_bytes(gzip.compress(WRITERS[ending](ROWS[40:]).encode()))
    for name, content in {"_SUCCESS": "", f".a.{ending}.crc": "x", "README.md": "x", "info.json": "{}"}.items():
        (folder / name).write_text(content)
    (folder / f"empty.{ending}").touch()
    return folder


@pytest.mark.parametrize("ending", WRITERS)
def test_a_folder_of_tables_is_one_table(ending: str, tmp_path: Path):
    table = read([shards(tmp_path / "data", ending)])
    files = [tmp_path / "data" / f"a.{ending}", tmp_path / "data" / "sub" / f"b.{ending}.gz"]
    assert isinstance(table, Table) and list(table.paths) == files and len(table) == 60
    assert table.column("text") == [text for text, _ in ROWS] and table.fingerprint == read(files).fingerprint
    assert table.place(45) == f"b.{ending}.gz {'line 6' if ending == 'jsonl' else 'row 7'}"


def test_a_folder_is_trained_on_evaluated_and_classified(tmp_path: Path, tiny: dict[str, Any], in_process: Callable):
    folder = shards(tmp_path / "data", "csv")
    run = headway.train(folder, out=tmp_path / "run", quiet=True, **{**tiny, "steps": 4})
    assert run["task"] == "classification" and headway.evaluate(tmp_path / "run")["examples"] == 6
    assert headway.evaluate(tmp_path / "run", folder)["examples"] == 6, "the same data: the held-out part"
    status, out, err = in_process("classify", tmp_path / "run", folder, "--json")
    assert status == 0, err
    assert len(json.loads(out)["results"]) == 60
    status, _, err = in_process("classify", tmp_path / "run", folder, "--to", tmp_path / "answers.csv", "--quiet")
    assert status == 0 and len((tmp_path / "answers.csv").read_text().splitlines()) == 61
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("the cat\n")
    status, _, err = in_process("classify", tmp_path / "run", tmp_path / "texts")
    assert status == 2 and "this is a folder of texts; name a file in it" in err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("b.csv", "text,topic\na,b\n", r"b.csv: its columns are text, topic, but .*a.csv has text, label"),
        ("b.tsv", "text\tlabel\na\tb\n", r"contains CSV files \(a.csv\) and TSV files \(b.tsv\); name the files"),
        ("b.jsonl", "{}\n", r"contains CSV files \(a.csv\) and JSON Lines files \(b.jsonl\); name the files"),
        ("b.txt", "A text.\n", r"contains text files \(b.txt\) and CSV files \(a.csv\); name the files"),
        ("b.csv", "text,label\na,b,c\n", r"b.csv, row 2: "),
    ],
)
def test_other_files_are_refused_by_name(name: str, content: str, words: str, tmp_path: Path):
    (tmp_path / "a.csv").write_text(WRITERS["csv"](ROWS))
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=words):
        read([tmp_path])


def test_a_folder_of_tables_of_one_column_is_running_text_and_of_conversations_such(tmp_path: Path):
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    for folder, content in (("one", "text\nA long text.\n"), ("talks", "")):
        (tmp_path / folder).mkdir()
        for name in ("a", "b"):
            ending = "csv" if content else "jsonl"
            (tmp_path / folder / f"{name}.{ending}").write_text(content or json.dumps({"messages": turns}) + "\n")
    assert read([tmp_path / "one"]).n_documents == 2
    assert len(read([tmp_path / "talks"]).rows) == 2
