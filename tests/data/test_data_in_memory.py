"""Frames, data sets and lists are read as a file with the same rows would be."""

from pathlib import Path

import numpy
import pandas
import pytest

from headway.data.open.in_memory import given_inputs, table_corpus
from headway.data.open.read import read
from headway.data.records.table import Table
from headway.errors import InputError

TEXTS = ["one text", "another, é", "", "last one"]
LABELS = ["a", "b", "a", "b"]
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]


class Polars:
    """What a frame of polars can do, as far as it is needed."""

    def __init__(self, columns: dict[str, list]):
        self._columns, self.columns = columns, list(columns)

    def __len__(self) -> int:
        return len(self._columns[self.columns[0]])

    def iter_rows(self):
        return zip(*self._columns.values(), strict=True)

    def slice(self, start: int, length: int) -> "Polars":
        return Polars({name: values[start : start + length] for name, values in self._columns.items()})

    def to_dict(self, *, as_series: bool) -> dict[str, list]:
        assert not as_series
        return self._columns


def data_set():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["a", "b"])})
    return datasets.Dataset.from_dict({"text": TEXTS, "label": [0, 1, 0, 1]}, features=features)


KINDS = {
    "pandas": lambda: pandas.DataFrame(ROWS),
    "polars": lambda: Polars({"text": TEXTS, "label": LABELS}),
    "data set": data_set,
    "pair": lambda: (TEXTS, LABELS),
    "dicts": lambda: ROWS,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_one_table(kind):
    (found,) = given_inputs([KINDS[kind]()])
    assert isinstance(found, Table) and list(found.rows) == ROWS and found.columns == ["text", "label"]
    assert found.place(1) == "index 1" and found.places([0, 2]) == "index 0, 2"
    assert found.fingerprint == given_inputs([(TEXTS, LABELS)])[0].fingerprint
    assert found.fingerprint != given_inputs([(TEXTS, LABELS[::-1])])[0].fingerprint
    assert found.inputs == [found.name] and found.name.endswith(" of 4 rows")


def test_texts_and_labels_may_be_two_lists_and_texts_alone_are_running_text():
    (found,) = given_inputs([TEXTS, LABELS])
    assert list(found.rows) == ROWS
    (texts,) = given_inputs([["first text", "second text"]])
    corpus = table_corpus(texts, "text")
    assert ["".join(document) for document in corpus.documents()] == ["first text", "second text"]
    assert corpus.n_characters == 21 and corpus.fingerprint != ""


def test_cells_are_written_as_parquet_has_them(tmp_path):
    frame = pandas.DataFrame(
        {"text": ["a b", None, "c"], "n": [1, 2, 3], "x": [0.5, None, 2.0], "yes": [True, False, True]}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    (found,) = given_inputs([frame])
    assert list(found.rows) == list(read([tmp_path / "t.parquet"]).rows)


def test_names_of_files_stay_names(tmp_path):
    assert given_inputs(["a.txt", Path("b.txt"), ["c.txt"]]) == ["a.txt", Path("b.txt"), "c.txt"]
    place = tmp_path / "with blank.txt"
    place.write_text("x")
    assert given_inputs([[str(place)]]) == [str(place)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([7], "int"),
        ([None], "NoneType"),
        ([{"text": 1}], "dict"),
        ([[1, 2]], "list"),
        ([pandas.DataFrame(ROWS), "a.csv"], "must be the only one"),
        ([(TEXTS, LABELS[:2])], "4 texts were given with 2 labels"),
        ([([1, "b"], ["x", "y"])], "has int"),
        ([[{"a": 1}, {"b": 2}]], "index 1 has the keys b"),
        ([pandas.DataFrame()], "is empty; expected rows"),
        ([pandas.DataFrame([["a", "b"]], columns=["t", "t"])], "two columns 't'"),
        ([[{"text": b"x", "label": 1}]], "index 0: column 'text' holds bytes"),
        ([[{"text": "a\0b", "label": 1}]], "index 0: a NUL in column 'text'"),
    ],
)
def test_anything_else_is_one_message(given, words):
    with pytest.raises(InputError, match=words):
        given_inputs(given)


class Series:
    """What a Series of polars can do, as far as it is needed."""

    def __init__(self, values: list):
        self.to_list = lambda: values


def column():
    return data_set()["text"]


SEVERAL = {
    "tuple": tuple,
    "pandas": pandas.Series,
    "numpy": numpy.array,
    "polars": Series,
    "data set": lambda texts: column(),
}


@pytest.mark.parametrize("kind", SEVERAL.values(), ids=SEVERAL)
def test_a_series_or_an_array_is_a_list(kind):
    if kind is not tuple:
        (found,) = given_inputs([kind(TEXTS)])
        assert found.columns == ["text"] and found.column("text") == TEXTS
    for given in ([(kind(TEXTS), pandas.Series(LABELS))], [pandas.Series(TEXTS), numpy.array(LABELS)]):
        if kind is not tuple:
            assert list(given_inputs(given)[0].rows) == ROWS


def test_cells_of_arrays_and_tuples_are_lists_and_sets_are_refused():
    arrays = pandas.DataFrame({"text": TEXTS, "tags": [numpy.array(["a"]), numpy.array(["a", "b"]), ["c"], ("d", 1)]})
    assert given_inputs([arrays])[0].column("tags") == ['["a"]', '["a", "b"]', '["c"]', '["d", 1]']
    with pytest.raises(InputError, match="index 0: column 'tags' holds set; expected texts or numbers"):
        given_inputs([[{"text": "a", "tags": {"b"}}]])
    with pytest.raises(InputError, match=r"has float .* at index 1"):
        given_inputs([(pandas.Series(["a", float("nan")], dtype=object), ["x", "y"])])


SUMS = [f"{a}+{b}={a + b}" for a in range(11) for b in range(7)]


@pytest.mark.parametrize(
    "texts",
    [
        SUMS,
        ["今天天气很好。", "我们去公园散步。"],
        ["C" * 5000, "F/C=C/F", "[Na+].[Cl-]", ".."],
        ["and/or", "cat", "sat", "notes.txt"],
    ],
    ids=["sums", "Chinese", "molecules", "words"],
)
def test_texts_without_blanks_are_texts(texts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat").write_text("a file of that name")
    (alone,) = given_inputs([texts])
    assert isinstance(alone, Table) and alone.column("text") == texts
    labels = [len(text) % 2 for text in texts]
    for given in ([texts, labels], [tuple(texts), tuple(labels)], [(texts, labels)]):
        (found,) = given_inputs(given)
        assert found.column("text") == texts and found.column("label") == list(map(str, labels))


def test_a_list_of_names_without_blanks_is_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.en").write_text("a text")
    (tmp_path / "train.de").write_text("ein Text")
    for names in (
        ["a.csv", "b.csv"],
        ["missing.txt.gz"],
        ["train.en", "train.de"],
        ["owner/name", "owner/other"],
        ["x"],
    ):
        assert given_inputs([names]) == names
