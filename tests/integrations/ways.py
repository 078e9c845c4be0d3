"""The ways by which a model answers rows: each takes a run and texts, and gives a dict of columns for each text."""

import contextlib
import csv
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.workflows.export import export

sys.path.append(str(Path(__file__).parent.parent / "serving"))
Texts = list[str | None]
Answers = list[dict[str, Any]]
ROOT = Path(__file__).parents[2]


def row_of(answer):
    """What a pipeline answers, as the columns of a table."""
    if "scores" not in answer:
        return {"value": answer["value"]}
    scores = {f"score: {label}": score for label, score in answer["scores"].items()}
    if "labels" in answer:
        return {"labels": ";".join(answer["labels"]) if scores else None, **scores}
    return {"label": answer["label"], **scores}


def rows_of(frame):
    """The rows of a pandas frame, None for what is missing."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def pipeline(run, texts):
    return [row_of(answer) for answer in headway.load(run)([text or "" for text in texts])]


def command(run, texts):
    with tempfile.TemporaryDirectory() as folder:
        source, to = Path(folder) / "in.jsonl", Path(folder) / "out.csv"
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        words = [sys.executable, "-m", "headway", "predict", str(run), str(source), "--to", str(to), "--quiet"]
        subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True)
        with to.open(newline="", encoding="utf-8") as lines:
            found = list(csv.DictReader(lines))
    words_of = ("label", "labels", "text")
    return [{name: cell if name in words_of else float(cell or "nan") for name, cell in row.items()} for row in found]


def server(run, texts):
    from served_models import Server

    found, served = [], Server(run, "--quiet")
    for start in range(0, len(texts), 100):
        answer = served.post("/predict", {"inputs": [text or "" for text in texts[start : start + 100]]})
        assert answer.status_code == 200, answer.text
        found += [row_of(one) for one in answer.json()["answers"]]
    assert served.stop() == 0
    return found


def pandas(run, texts):
    pd = pytest.importorskip("pandas")
    return rows_of(headway.load(run).predict(pd.DataFrame({"text": texts})))


def polars(run, texts):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"text": texts})
    lazy = frame.lazy().map_batches(headway.Batch(run), schema=headway.load(run).predict(frame[:0]).schema)
    return lazy.collect().to_dicts()


def arrow(run, texts):
    pa = pytest.importorskip("pyarrow")
    answer = pickle.loads(pickle.dumps(headway.Batch(run)))
    batches = pa.table({"text": texts}).to_batches(max_chunksize=300)
    return pa.Table.from_batches([answer(batch) for batch in batches]).to_pylist()


def arrays(run, texts):
    found = headway.Batch(run)({"text": np.array(texts, dtype=object)})
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


def onnx(run, texts):
    """ONNX Runtime, without Headway: every text has a word."""
    onnxruntime, tokenizers = pytest.importorskip("onnxruntime"), pytest.importorskip("tokenizers")
    pytest.importorskip("onnxscript")
    with tempfile.TemporaryDirectory() as folder:
        assert export(run, Path(folder) / "onnx", to="onnx").made
        session = onnxruntime.InferenceSession(Path(folder) / "onnx" / "model.onnx")
        tokenizer = tokenizers.Tokenizer.from_file(str(Path(folder) / "onnx" / "tokenizer.json"))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(texts)
    given = {"input_ids": [one.ids for one in encoded], "attention_mask": [one.attention_mask for one in encoded]}
    given |= {"token_type_ids": np.zeros_like(given["input_ids"])}
    names = {one.name for one in session.get_inputs()}
    (logits,) = session.run(["logits"], {name: np.array(value) for name, value in given.items() if name in names})
    pipe = headway.load(run)
    if pipe.task == "regression":
        return [{"value": float(row[0])} for row in logits]
    several = pipe.task == "multi_label"
    scores = 1 / (1 + np.exp(-logits)) if several else np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return [{f"score: {name}": float(one) for name, one in zip(pipe.labels, row, strict=True)} for row in scores]


def sklearn(run, texts):
    """Estimators that would have been fitted to the run, where what they answer without a word is no number."""
    from headway.integrations.sklearn import Run
    from headway.sklearn import MultiLabelClassifier, TextClassifier, TextRegressor

    kinds = {"classification": TextClassifier, "regression": TextRegressor, "multi_label": MultiLabelClassifier}
    pipe = headway.load(run)
    model = kinds[pipe.task]()
    model.run_ = Run(run)
    if pipe.task == "regression":
        model._mean = np.nan
        return [{"value": value} for value in model.predict(texts)]
    model.classes_, model._names, model._shares = np.array(pipe.labels), pipe.labels, np.full(len(pipe.labels), np.nan)
    model._usual = np.zeros(len(pipe.labels), dtype=int)
    scores, labels = model.predict_proba(texts), model.predict(texts)
    if labels.ndim == 1:
        first = [{"label": None if np.isnan(row[0]) else label} for row, label in zip(scores, labels, strict=True)]
    else:
        first = [{"labels": ";".join(model.classes_[row == 1])} for row in labels]
    names = [f"score: {name}" for name in pipe.labels]
    return [one | dict(zip(names, row.tolist(), strict=True)) for one, row in zip(first, scores, strict=True)]


def spark(run, texts):
    """Two Python workers, by mapInPandas, and by a function of a column, which gives the same."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from headway.integrations.spark import answer_udf, answered

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.createDataFrame(list(enumerate(texts)), "number int, text string").repartition(4)
        answer = headway.Batch(run)
        found = rows_of(answered(frame, answer).toPandas().sort_values("number"))
        column = frame.withColumn("answer", answer_udf(answer)("text")).select("number", "text", "answer.*")
        by_column = rows_of(column.toPandas().sort_values("number"))
        assert found == by_column
    finally:
        session.stop()
    return found


def ray(run, texts):
    """Two actors."""
    engine, pd = pytest.importorskip("ray"), pytest.importorskip("pandas")
    import ray.data

    from headway.integrations.ray import answered

    engine.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        frame = pd.DataFrame({"number": range(len(texts)), "text": texts})
        half = len(frame) // 2
        data = ray.data.from_pandas([frame[:half], frame[half:]])
        return rows_of(answered(data, headway.Batch(run), actors=2).to_pandas().sort_values("number"))
    finally:
        engine.shutdown()


def dask(run, texts):
    """Three partitions and one that is empty, by two workers of one thread."""
    pytest.importorskip("distributed")
    import dask.dataframe
    import pandas as pd
    from distributed import Client

    from headway.integrations.dask import answered

    frame = dask.dataframe.from_pandas(pd.DataFrame({"number": range(len(texts)), "text": texts}), npartitions=4)
    frame = dask.dataframe.concat([frame, frame[frame.number < 0]])
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None), tempfile.TemporaryDirectory() as folder:
        answered(frame, headway.Batch(run)).to_parquet(folder)  # where types must be those that were told
        return rows_of(dask.dataframe.read_parquet(folder).compute().sort_values("number"))


def mlflow(run, texts):
    """The pyfunc of an export."""
    pd = pytest.importorskip("pandas")
    with exported(run) as folder:
        import mlflow.pyfunc

        return rows_of(mlflow.pyfunc.load_model(str(folder)).predict(pd.DataFrame({"text": texts})))


def mlflow_server(run, texts):
    """``mlflow models serve --env-manager local``."""
    with exported(run) as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        words = ["models", "serve", "-m", str(folder), "--env-manager", "local", "-p", str(port)]
        places = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        served = subprocess.Popen(
            [sys.executable, "-m", "mlflow", *words],
            **{"env": {**os.environ, **places}, "start_new_session": True},
            **dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL),
        )
        try:
            body = json.dumps({"dataframe_split": {"columns": ["text"], "data": [[text] for text in texts]}}).encode()
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/invocations", body)
            asked.add_header("content-type", "application/json")
            for _ in range(120):
                try:
                    with urllib.request.urlopen(asked, timeout=60) as answer:
                        return json.load(answer)["predictions"]
                except (ConnectionError, urllib.error.URLError) as error:
                    if not isinstance(getattr(error, "reason", error), ConnectionError):
                        raise
                    time.sleep(0.5)
            raise AssertionError("the server of MLflow does not answer")
        finally:
            os.killpg(served.pid, 15)
            served.wait(30)


@contextlib.contextmanager
def exported(run):
    """An export for MLflow."""
    pytest.importorskip("mlflow")
    with tempfile.TemporaryDirectory() as folder:
        found = export(run, Path(folder) / "mlflow", to="mlflow")
        assert found.made and found.parity.passed, found.parity.problem
        yield Path(folder) / "mlflow"


WAYS = {
    way.__name__: way
    for way in (command, server, pandas, polars, arrow, arrays, sklearn, onnx, spark, ray, dask, mlflow, mlflow_server)
}
