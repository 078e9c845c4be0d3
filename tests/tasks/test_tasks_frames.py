"""Data frames in and out: the same kind comes back with columns of answers, its own columns and index unchanged."""

import pandas
import polars
import pyarrow
import pytest
from datasets import Dataset

import headway
from headway.errors import InputError

TEXTS = ["great good lovely", None, "bad awful poor", " "]
ROWS = {"text": TEXTS, "label": ["a", "b", "c", "d"], "n": [1, 2, 3, 4]}
KINDS = {
    "pandas": lambda: pandas.DataFrame(ROWS, index=[7, 7, "x", 9]),
    "polars": lambda: polars.DataFrame(ROWS),
    "pyarrow": lambda: pyarrow.table(ROWS),
    "datasets": lambda: Dataset.from_dict(ROWS),
}


def values(frame, name):
    column = frame[name]
    found = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    return [None if one != one else one for one in found]


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_comes_back_as_it_came(kind, classifier_run):
    frame, pipe = KINDS[kind](), headway.load(classifier_run)
    found = pipe.predict(frame)
    assert type(found) is type(frame) and len(found) == 4
    first, third = pipe([TEXTS[0], TEXTS[2]])
    assert values(found, "label") == ["a", "b", "c", "d"]  # its own
    assert values(found, "predicted: label") == [first["label"], None, third["label"], None]
    assert values(found, "score")[0] == pytest.approx(first["score"], abs=1e-6)
    scores = {label: values(found, f"score: {label}")[0] for label in first["scores"]}
    assert scores == pytest.approx(first["scores"], abs=1e-6)
    if kind == "pandas":  # and the given one is unchanged
        assert found.index.tolist() == [7, 7, "x", 9] and list(frame.columns) == list(ROWS)


def test_the_column_of_texts_is_that_of_the_run_the_only_one_or_asked_for(classifier_run):
    pipe = headway.load(classifier_run)
    frame = pandas.DataFrame({"review": ["great good"], "title": ["bad awful"], "n": [3]})
    with pytest.raises(InputError, match="which column holds the texts is not clear; pass text_column"):
        pipe.predict(frame)
    with pytest.raises(InputError, match="there is no column 'body'"):
        pipe.predict(frame, text_column="body")
    with pytest.warns(UserWarning, match="'review' is taken as the text"):
        assert len(pipe.predict(frame, text_column="title")) == len(pipe.predict(frame[["review", "n"]])) == 1
    with pytest.raises(InputError, match="not list"):
        pipe.predict(["a text"])
    assert list(pipe.predict(frame.iloc[:0], text_column="title").columns)[:4] == ["review", "title", "n", "label"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_answered_frame_can_be_answered_again(kind, classifier_run):
    pipe = headway.load(classifier_run)
    once = pipe.predict(KINDS[kind]())
    again = pipe.predict(once)
    assert values(again, "predicted: label") == values(once, "predicted: label")
    assert values(again, "predicted: predicted: label") == values(once, "predicted: label")
    assert values(again, "predicted: score") == values(once, "score")


def test_another_column_is_named_and_what_is_not_known_gets_null(classifier_run):
    frame = pandas.DataFrame({"name": ["日本", "great good", None], "n": [1, 2, 3]})
    with pytest.warns(UserWarning, match="a pandas frame has no column 'text': 'name' is taken as the text"):
        found = headway.load(classifier_run).predict(frame)
    assert found["label"].isna().tolist() == [True, False, True]


def test_several_answers_to_a_text_are_a_list(tmp_path):
    (tmp_path / "names.conll").write_text("Anna B-PER\nsings O\n\nOtto B-PER\nruns O\n\n" * 20)
    headway.train(tmp_path / "names.conll", out=tmp_path / "run", steps=2, d_model=16, layers=1, heads=2, quiet=True)
    found = headway.load(tmp_path / "run").predict(pandas.DataFrame({"text": ["Anna sings", None]}))
    assert isinstance(found["answer"][0], list) and found["answer"][1] is None
