"""Columns of bytes, lists and objects: the rows of a .parquet are read as the same rows of a .jsonl are."""

import json
import warnings
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headway
from headway.data.open.read import read
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues
from headway.errors import InputError
from headway.training.options import TrainOptions
from headway.workflows.input import read_input

N = 31
TALK = {
    "prompt": "say it",
    "messages": [{"role": "user", "content": "say it {n}"}, {"role": "assistant", "content": "it is {n}", "weight": 1}],
}
ROWS: dict[str, dict[str, Any]] = {
    "pairs": {"id": "x{n}", "translation": {"en": "the lamp {n} is here", "fr": "la lampe {n} est ici"}},
    "messages": TALK,
    "only messages": {"messages": TALK["messages"]},
    "sharegpt": {"conversations": [{"from": "human", "value": "say {n}"}, {"from": "gpt", "value": "it is {n}"}]},
    "prompt and completion": {"prompt": [TALK["messages"][0]], "completion": [{"role": "assistant", "content": "{n}"}]},
    "spans": {"text": "Anna left {n}", "spans": [{"start": 0, "end": 4, "label": "PER"}]},
    "a text with metadata": {"text": "the lamp {n} is here", "meta": {"from": "a shop", "tags": ["a"]}},
}


def made(row: Any, n: int) -> Any:
    return json.loads(json.dumps(row).replace("{n}", str(n)))


def both(folder: Path, rows: list[Any], **columns: pa.DataType) -> tuple[Path, Path]:
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = pa.Table.from_pylist(rows)
    for name, kind in columns.items():
        at = table.column_names.index(name)
        table = table.set_column(at, name, table.column(name).cast(kind))
    pq.write_table(table, folder / "rows.parquet", row_group_size=13)
    return folder / "rows.jsonl", folder / "rows.parquet"


def content(source: Any) -> Any:
    if isinstance(source, Corpus):
        return ["".join(document) for document in source.documents()]
    return source.columns, list(source.rows)


@pytest.mark.parametrize("case", ROWS)
def test_nested_rows_are_read_as_those_of_jsonl(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = [made(ROWS[case], n) for n in range(N)]
    for n, row in enumerate(rows if "metadata" in case else []):
        row["meta"]["from"] = "ab"[n % 2]  # as few as labels are
    options = TrainOptions().but(task="dialogue") if "completion" in case else TrainOptions()
    (source, found), (other, again) = (read_input([path], options) for path in both(tmp_path, rows))
    assert content(source) == content(other) and (found.task, found.text_column, found.second_column) == (
        again.task,
        again.text_column,
        again.second_column,
    )
    assert found.task == {"pairs": "translation", "spans": "token_classification"}.get(case, "language_modeling")
    monkeypatch.setattr("headway.workflows.input.LARGE", 1)  # judged by a sample
    assert content(read_input([tmp_path / "rows.parquet"], options)[0]) == content(source)
    (tmp_path / "parts").mkdir()
    (tmp_path / "rows.parquet").rename(tmp_path / "parts" / "a.parquet")
    assert content(read_input([tmp_path / "parts"], options)[0]) == content(source)


@pytest.mark.parametrize("case", ["messages", "only messages", "sharegpt"])
def test_conversations_in_memory_are_those_of_the_file(case: str, tmp_path: Path, in_process: Any):
    rows = [made(ROWS[case], n) for n in range(N)]
    tiny: dict[str, Any] = {"steps": 2, "batch_tokens": 256, "threads": 1, "d_model": 16, "layers": 1, "heads": 2}
    path = both(tmp_path, rows)[1]
    runs = [headway.train(data, out=tmp_path / str(at), quiet=True, **tiny) for at, data in enumerate((path, rows))]
    assert runs[0]["val_loss"] == runs[1]["val_loss"] and runs[0]["task"] == "language_modeling"
    status, _, err = in_process("train", path, "--plan")
    assert status == 0 and "trained on the replies only" in err
    status, _, err = in_process("train", path, "--stream", "--plan")
    assert status == 2 and "these are conversations" in err


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_texts_of_any_type_are_texts(kind: pa.DataType, tmp_path: Path, in_process: Any):
    rows = [{"text": f"the lamp {n} is good, é", "label": "ab"[n % 2]} for n in range(N)]
    paths = both(tmp_path, rows, text=kind)
    (source, found), (other, again) = (read_input([path], TrainOptions()) for path in paths)
    assert content(source) == content(other) and found == again and found.task == "classification"
    streamed, _ = read_input(paths[1:], TrainOptions().but(stream=True, text_column="text"))
    assert content(streamed) == [row["text"] for row in rows]


def test_bytes_that_are_not_utf8_are_refused_with_their_place(tmp_path: Path, in_process: Any):
    texts = [f"the lamp {n}".encode() for n in range(N)]
    texts[17] = b"caf\xe9"
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": texts, "label": ["ab"[n % 2] for n in range(N)]}), path, row_group_size=13)
    status, _, err = in_process("train", path, "--plan")
    assert status == 2 and f"{path}, row 18, column 'text': this text is not UTF-8" in err
    out = tmp_path / "run"
    status, _, err = in_process("train", path, "--stream", "--text-column", "text", "--steps", 2, "--out", out)
    assert status == 2 and "row group 2 of 3, row 5, column 'text': this text is not UTF-8" in err


def test_columns_that_are_not_read_are_named_whatever_their_type(tmp_path: Path, in_process: Any):
    columns = {
        "text": [f"the lamp {n} is here" for n in range(N)],
        "vector": pa.array([[0.5, 1.5]] * N, pa.list_(pa.float32(), 2)),
        "thumbnail": [b"\x89PNG\r\n\x1a\n\0" + bytes([n]) for n in range(N)],
        "picture": [{"bytes": b"\0\1\xff", "path": None}] * N,
        "price": [Decimal("1.50")] * N,
        "when": [datetime(2020, 1, 2)] * N,
        "map": pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int8())),
        "numbers": [[1, 2]] * N,
        "enum": pa.array(["x"] * N).dictionary_encode(),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    status, _, err = in_process("train", path, "--plan")
    assert status == 0 and err.count("columns that are not read: ") == 1
    assert all(f"{name} (" in err for name in ("vector", "thumbnail", "picture")) and "'text'" in err
    with warnings.catch_warnings(action="ignore"):
        row = read(path).rows[0]
    assert row == {
        **{"text": "the lamp 0 is here", "price": "1.50", "when": "2020-01-02 00:00:00", "map": '[["a", 1]]'},
        **{"numbers": "[1, 2]", "enum": "x"},
    }
    pq.write_table(pa.table({"image": columns["picture"], "label": [n % 2 for n in range(N)]}), path)
    status, _, err = in_process("train", path, "--plan")
    assert status == 2 and "no column holds texts, only label (int64); not read: image (struct<" in err


NESTED: dict[str, Any] = {
    "an object": {"data": {"text": "the lamp {n}", "label": "a"}},
    "an object with an id": {"id": "x{n}", "data": {"text": "the lamp {n}", "label": "a"}},
    "a list": {"words": ["a", "lamp", "{n}"]},
    "an object with a label": {"data": {"text": "the lamp {n}"}, "label": "a"},
}


@pytest.mark.parametrize("case", NESTED)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_nested_texts_are_no_language_model(case: str, ending: str, tmp_path: Path, in_process: Any):
    rows = [made(NESTED[case], n) for n in range(N)]
    rows = [{**row, "label": "ab"[n % 2]} if "label" in row else row for n, row in enumerate(rows)]
    paths = both(tmp_path, rows)
    path = paths[ending == "parquet"]
    status, _, err = in_process("train", path, "--plan")
    assert status == 2 and "lists or objects" in err and str(path) in err, err
    name = "words" if case == "a list" else "data"
    assert in_process("train", path, "--task", "language_modeling", "--text-column", name, "--plan")[0] == 0


def test_json_documents_are_texts_where_they_are_named(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": json.dumps({"n": n})}) + "\n" for n in range(N)))
    with pytest.raises(InputError, match="--text-column names a column"):
        read_input([tmp_path / "a.jsonl"], TrainOptions())
    source, _ = read_input([tmp_path / "a.jsonl"], TrainOptions().but(text_column="text"))
    assert isinstance(source, Corpus) and not isinstance(source, Dialogues)
