"""Batches of rows of any kind, and what a worker says that cannot answer."""

import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import headway
from headway.errors import InputError
from headway.integrations import batch

TEXTS = ["great good lovely", None, " ", "bad awful poor"]
KINDS = {
    "arrays": lambda rows: {name: np.array(cells, dtype=object) for name, cells in rows.items()},
    "lists": dict,
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "table": pyarrow.table,
    "batch": pyarrow.RecordBatch.from_pydict,
}


@pytest.fixture
def run(classifier_run, tmp_path):
    return Path(shutil.copytree(classifier_run, tmp_path / "run"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_comes_back_as_it_came(kind, classifier_run):
    answer = pickle.loads(pickle.dumps(headway.Batch(classifier_run)))
    rows = KINDS[kind]({"text": TEXTS, "n": [1, 2, 3, 4]})
    found = answer(rows)
    assert type(found) is type(rows)
    labels = [cell if isinstance(cell, str) else None for cell in np.array(found["label"]).tolist()]
    first, last = headway.load(classifier_run)([TEXTS[0], TEXTS[3]])
    assert labels == [first["label"], None, None, last["label"]]
    assert np.array(found["score"], dtype=float)[0] == pytest.approx(first["score"], abs=1e-6)


OWN = pyarrow.schema([("text", pyarrow.string()), ("label", pyarrow.int64())])
OF_ARROW = {
    "pandas": pyarrow.Table.to_pandas,
    "polars": polars.from_arrow,
    "table": lambda rows: rows,
    "batch": lambda rows: pyarrow.RecordBatch.from_arrays(
        [one.combine_chunks() for one in rows.columns], rows.schema.names
    ),
}


@pytest.mark.parametrize("texts", [[], [None, None], TEXTS], ids=["none", "null", "some"])
@pytest.mark.parametrize("kind", OF_ARROW)
def test_columns_have_the_types_of_the_schema_whatever_the_rows(kind, texts, classifier_run):
    answer = headway.Batch(classifier_run)
    rows = pyarrow.table({"text": texts, "label": [1] * len(texts)}, schema=OWN)
    found = answer(OF_ARROW[kind](rows))
    if kind in ("table", "batch"):
        assert found.schema == pyarrow.schema([*OWN, *answer.schema(OWN.names)])
    elif kind == "polars":
        assert found.schema["predicted: label"] == polars.String and found.schema["score"] == polars.Float64
    else:
        assert found["score"].dtype == float and not pandas.api.types.is_numeric_dtype(found["predicted: label"])


def test_a_part_that_differs_is_named(classifier_run):
    answer = headway.Batch(classifier_run)
    for part, said in (
        (pandas.DataFrame({"text": ["good", 7]}), "a pandas frame, index 1: column 'text' holds '7', which is int"),
        (pandas.DataFrame({"body": ["good"]}), r"there is no column 'text'.* Its columns are body"),
        ({"text": ["a", "b"], "n": [1]}, "a dict of columns: expected lists of as many values in each; 'text' has 2"),
        (pandas.DataFrame([["good", "bad"]], columns=["text", "text"]), "two columns 'text'"),
    ):
        with pytest.raises(InputError, match=said):
            answer(part)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda answer, run: run.rename(run.with_name("away")), "there is no such run on .*copy it to the same path"),
        (lambda answer, run: setattr(answer, "version", "0.0.1"), "where the job began 0.0.1; install"),
        (lambda answer, run: setattr(answer, "model", "another"), "is another model than where the job began"),
    ],
    ids=["missing", "version", "model"],
)
def test_a_worker_that_has_not_the_same_says_so(broken, message, run, monkeypatch):
    answer = pickle.loads(pickle.dumps(headway.Batch(run)))
    broken(answer, run)
    monkeypatch.setattr(batch, "_loaded", {})  # as in another process
    with pytest.raises(InputError, match=message):
        answer({"text": ["good"]})


def test_a_process_loads_a_run_once(run, monkeypatch):
    answer = headway.Batch(run)
    monkeypatch.setattr(batch.Batch, "_load", lambda self: pytest.fail("it was loaded again"))
    assert len(pickle.loads(pickle.dumps(answer))({"text": ["good"]})["label"]) == 1


def test_options_are_those_of_the_verb(char_run, classifier_run):
    answer = headway.Batch(char_run, "text", max_tokens=3, seed=0)
    assert len(answer({"text": ["the "]})["continuation"][0]) <= 3
    with pytest.raises(InputError, match="there is no option beam; classification has none"):
        headway.Batch(classifier_run, beam=3)


def test_train_takes_a_dict_of_columns(tmp_path, tiny):
    words = ["great", "good", "bad", "awful"] * 20
    data = {"text": np.array([f"{word} lamp {n}" for n, word in enumerate(words)]), "label": ["a", "a", "b", "b"] * 20}
    found = headway.train(data, out=tmp_path / "run", quiet=True, **tiny)
    assert found["task"] == "classification"


def test_what_is_no_text_is_refused_where_only_a_column_is_given(classifier_run):
    answer = headway.Batch(classifier_run)
    for wrong in (5, 1.5, True, b"good", ["good"]):
        with pytest.raises(InputError, match="expected texts"):
            answer.answers(["good", wrong])
    assert answer.answers(["good", None, float("nan"), ""])["label"][1:].tolist() == [None] * 3


def test_texts_have_one_type_in_every_part(classifier_run):
    parts = [pandas.DataFrame({"text": pandas.Series(texts, dtype="str")}) for texts in ([], [""], ["good"])]
    assert len({str(headway.Batch(classifier_run)(part).dtypes["label"]) for part in parts}) == 1


def test_the_server_of_mlflow_is_told_what_is_wrong(classifier_run):
    exceptions = pytest.importorskip("mlflow.exceptions")
    from headway.integrations.mlflow import Answers

    with pytest.raises(exceptions.MlflowException, match="expected texts") as raised:
        Answers(classifier_run).predict(pandas.DataFrame({"text": [5]}))
    assert raised.value.error_code == "INVALID_PARAMETER_VALUE"


def test_spark_does_not_tell_capitals(classifier_run):
    pytest.importorskip("pyspark")
    from pyspark.sql.types import StringType, StructField, StructType

    from headway.integrations.spark import answered

    schema = StructType([StructField(name, StringType()) for name in ("text", "Label")])
    with pytest.raises(InputError, match="'label' names two columns to Spark"):
        answered(SimpleNamespace(schema=schema, columns=schema.names), headway.Batch(classifier_run))
