"""Parquet is read as the same .csv would be, by row groups, and what cannot be read is refused in one line."""

import csv
import json
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headway
from headway.data.formats import parquet
from headway.data.open.read import read
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.data.stream import streamed
from headway.data.stream.streamed import local_shard, sample_table, spread
from headway.errors import InputError
from headway.training.options import TrainOptions
from headway.workflows import input as prepare
from headway.workflows.evaluate import evaluate
from headway.workflows.input import detect, read_input

CELLS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=11)
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(path: Path, columns: dict[str, object], rows: int | None = None) -> Path:
    """A file with so many rows in each row group."""
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


@QUICK
@given(cells=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=13), group=st.integers(1, 5))
def test_what_is_written_comes_back(tmp_path: Path, cells: list[tuple[str, str]], group: int):
    texts, labels = (list(side) for side in zip(*cells, strict=True))
    table = read(write(tmp_path / "a.parquet", {"text": texts, "label": labels}, group))
    assert isinstance(table, Table) and table.columns == ["text", "label"]
    assert [(row["text"], row["label"]) for row in table.rows] == cells
    assert table.row_numbers == list(range(1, len(cells) + 1))
    other = read(write(tmp_path / "b.parquet", {"text": texts, "label": labels}))
    assert other.fingerprint == table.fingerprint, "of the content, however it is laid out"
    changed = read(write(tmp_path / "c.parquet", {"text": [*texts[:-1], texts[-1] + "!"], "label": labels}))
    assert changed.fingerprint != table.fingerprint


def test_values_are_written_as_words_and_an_index_is_left_out(tmp_path: Path):
    columns = {
        "text": pa.array(["a", None, "c"]),
        "whole": pa.array([1, None, -3], pa.int16()),
        "real": [0.5, float("nan"), 1e300],
        "sure": [True, False, None],
        "few": pa.array(["x", "y", "x"]).dictionary_encode(),
        "day": pa.array([0, 1, None], pa.date32()),
        "none": pa.nulls(3),
        "nested": [[1], [2], []],
        "bytes": [b"a", b"b", b"c"],
        "__index_level_0__": [7, 11, 13],
    }
    table = read(write(tmp_path / "a.parquet", columns))
    assert table.columns == ["text", "whole", "real", "sure", "few", "day", "none", "nested", "bytes"]
    assert [list(row.values()) for row in table.rows] == [
        ["a", "1", "0.5", "true", "x", "1970-01-01", "", "[1]", "a"],
        ["", "", "", "false", "y", "1970-01-02", "", "[2]", "b"],
        ["c", "-3", "1e+300", "", "x", "", "", "[]", "c"],
    ]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table of texts and labels, as .csv and as .parquet in row groups of 29; some of each are missing."""
    draw, folder = random.Random(3), tmp_path_factory.mktemp("both")
    words = {0: ["bad", "poor", "sad"], 1: ["good", "fine", "lovely"]}
    rows: list[tuple[str | None, int | None]] = []
    for number in range(211):
        label = number % 3 % 2
        rows.append((" ".join([*draw.choices(["the", "lamp", "is", "a"], k=5), draw.choice(words[label])]), label))
    rows[17], rows[19] = (None, 1), (rows[19][0], None)
    with (folder / "reviews.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *(("" if v is None else v for v in row) for row in rows)])
    labels = pa.array([label for _, label in rows], pa.int8())
    write(folder / "reviews.parquet", {"text": [text for text, _ in rows], "label": labels}, 29)
    return folder / "reviews.csv", folder / "reviews.parquet"


def test_a_classifier_learns_the_same_from_parquet_as_from_csv(
    both: tuple[Path, Path], tmp_path: Path, tiny: dict, in_process
):
    found, facts = {}, {}
    for path in both:
        out = tmp_path / path.suffix[1:]
        run = headway.train(path, out=out, quiet=True, on_bad_row="skip", **tiny)
        found[path.suffix] = {key: run[key] for key in ("task", "train_loss", "val_loss", "accuracy", "baselines")}
        facts[path.suffix] = json.loads((out / "headway.json").read_text())
    assert found[".csv"] == found[".parquet"] and found[".csv"]["task"] == "classification"
    assert facts[".csv"]["labels"] == facts[".parquet"]["labels"] == ["0", "1"]
    assert facts[".csv"]["data"]["classes"] == facts[".parquet"]["data"]["classes"]
    measured = [evaluate(tmp_path / "parquet", [path]) for path in both]
    assert measured[1]["on"].endswith("the held-out part") and measured[1]["accuracy"] == found[".csv"]["accuracy"]
    rows, numbers = (str(facts[ending]["data"]["warnings"]) for ending in (".csv", ".parquet"))
    assert "rows 19, 21" in rows and "rows 18, 20" in numbers
    status, out, _ = in_process("classify", tmp_path / "parquet", both[1], "--json")
    assert status == 0 and len(json.loads(out)["results"]) == 211


def test_one_column_of_texts_is_running_text_from_one_file_several_or_a_folder(tmp_path: Path):
    texts = [f"the old cat sat on mat {number}" for number in range(31)]
    one = write(tmp_path / "one.parquet", {"text": texts}, 7)
    (tmp_path / "parts").mkdir()
    parts = [
        write(tmp_path / "parts" / f"{at:02}.parquet", {"text": texts[at : at + 13]}, 5) for at in range(0, 31, 13)
    ]
    for inputs in ([one], parts, [tmp_path / "parts"]):
        corpus = read(inputs)
        assert isinstance(corpus, Corpus) and [text for text, _ in corpus.chunks()] == texts
        assert corpus.n_documents == 31 and detect(corpus).task == "language_modeling"


def test_a_large_table_is_judged_by_a_sample_and_streams_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Only its texts become strings then, and no row is held."""
    texts = [f"document {number} of the old cat" for number in range(601)]
    columns = {"text": texts, "id": list(range(601)), "url": [f"u{number}" for number in range(601)]}
    path = write(tmp_path / "a.parquet", columns, 100)
    small, found = read_input([path], TrainOptions())
    read_all: list[str] = []

    def counting(path: Path, bad: object, tally: object, columns: list[str] | None = None) -> object:
        read_all.append(str(columns))
        return parquet.open_parquet(path, bad, tally, columns)

    monkeypatch.setattr(prepare, "LARGE", 1)
    monkeypatch.setattr("headway.data.open.read.open_parquet", counting)
    large, found_again = read_input([path], TrainOptions())
    assert (
        (found.task, found.text_column) == (found_again.task, found_again.text_column) == ("language_modeling", "text")
    )
    assert [text for text, _ in large.chunks()] == [text for text, _ in small.chunks()] == texts
    assert set(read_all) == {"['text']"} and large.fingerprint == small.fingerprint
    table = {"text": texts, "label": [str(number % 2) for number in range(601)]}
    source, found = read_input([write(tmp_path / "b.parquet", table, 100)], TrainOptions())
    assert found.task == "classification" and len(source) == 601, "rows that are wanted whole are read whole"


def test_a_sample_is_spread_evenly_over_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streamed, "SAMPLED_GROUPS", 5)
    monkeypatch.setattr(streamed, "SAMPLED_ROWS", 10)
    paths = [write(tmp_path / f"{n}.parquet", {"text": [f"{n} {i}" for i in range(20)]}, 5) for n in range(3)]
    table = sample_table([local_shard(path) for path in paths])
    found = table.column("text")
    assert [table.place(at) for at in (0, 3, 4, 9)] == [
        "0.parquet row 1", "0.parquet row 17", "1.parquet row 11", "2.parquet row 17",
    ]  # fmt: skip
    assert found == ["0 0", "0 1", "0 15", "0 16", "1 10", "1 11", "2 0", "2 1", "2 15", "2 16"]
    assert spread(0, 3) == [] and spread(2, 5) == [0, 1] and spread(10, 1) == [0]


def spoiled(folder: Path, how: str) -> Path:
    """A file with something wrong in it."""
    path = write(folder / "a.parquet", {"text": [f"a text, number {i}" for i in range(1000)]}, 100)
    data = bytearray(path.read_bytes())
    if how == "cut short":
        data = data[: len(data) // 2]
    elif how == "gzip":
        data = bytearray(b"\x1f\x8b" + bytes(97))
    elif how == "text":
        data = bytearray(b"text,label\na,b\n")
    elif how == "footer":
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        data[footer : footer + 32] = b"\xff" * 32
    elif how == "page":
        data[4:900] = b"\xff" * 896
    elif how == "encrypted":
        data[-4:] = b"PARE"
    elif how == "empty":
        data = bytearray()
    path.write_bytes(data)
    return path


SPOILED = {
    "cut short": "Parquet file is cut short; copy it again",
    "gzip": "gzip-compressed; unpack it first",
    "text": "this is not a Parquet file; give it the ending that fits",
    "footer": "cut short or damaged",
    "page": "cut short or damaged",
    "encrypted": "is encrypted; decrypt it first",
    "empty": "this file is empty",
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_file_that_cannot_be_read_is_refused(how: str, tmp_path: Path):
    with pytest.raises(InputError) as caught:
        read(spoiled(tmp_path, how))
    said = str(caught.value)
    assert SPOILED[how] in said and said.startswith(str(tmp_path / "a.parquet")) and "\n" not in said


def test_columns_that_cannot_be_read_are_named(tmp_path: Path):
    with pytest.raises(InputError, match=r"no column holds texts, only none at all; not read: at \(list<.*double>\)"):
        read(write(tmp_path / "a.parquet", {"at": [[0.5], [1.5]]}))
    twice = pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(twice, tmp_path / "b.parquet")
    with pytest.raises(InputError, match="has two columns 'text'"):
        read(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="row 2: a NUL in column 'text'"):
        read(write(tmp_path / "c.parquet", {"text": ["a", "b\0", "c"], "n": [1, 2, 3]}))
    kept = read(tmp_path / "c.parquet", on_bad_row="skip")
    assert kept.column("text") == ["a", "c"] and kept.row_numbers == [1, 3]
    with pytest.raises(InputError, match="no rows in this file, only columns"):
        read(write(tmp_path / "d.parquet", {"text": pa.array([], pa.string()), "n": pa.array([], pa.int8())}))
    with pytest.raises(InputError, match=r"its columns are text, n, but .*e.parquet has text"):
        read([write(tmp_path / "e.parquet", {"text": ["a"]}), tmp_path / "c.parquet"])
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    with pytest.raises(InputError, match="is not UTF-8"):
        read(write(tmp_path / "f.parquet", {"text": bad}))


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path / "a.parquet", {"text": ["a"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow: pip install 'headway\[data\]'"):
        read(path)


def test_a_folder_of_both_kinds_is_refused(tmp_path: Path):
    write(tmp_path / "a.parquet", {"text": ["a"]})
    (tmp_path / "b.txt").write_text("some text")
    with pytest.raises(
        InputError, match=r"contains text files \(b.txt\) and Parquet files \(a.parquet\); name the files"
    ):
        read(tmp_path)
