"""A run's log in a tracker: its numbers at their steps, once, also when it is resumed; and trackers that fail."""

import json
import re
import subprocess
import sys
import types

import pytest

import headway
from headway.errors import InputError
from headway.training.store.contents import read_log
from headway.training.store.tracking import OPENED

ROWS = [
    {"text": f"{'good' if at % 3 else 'bad'} lamp {at % 9}", "label": ("no", "yes")[at % 3 > 0]} for at in range(60)
]
QUICK = {"steps": 6, "d_model": 8, "layers": 1, "heads": 2, "threads": 1, "log_every": 2, "quiet": True}
Numbers = dict[str, list[tuple[int, float]]]


def tensorboard(place):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(place / "run" / "tensorboard"))
    board.Reload()
    return 1, {name: [(one.step, one.value) for one in board.Scalars(name)] for name in board.Tags()["scalars"]}


def mlflow(place):
    from mlflow import MlflowClient

    client = MlflowClient()
    one, *others = client.search_runs([client.get_experiment_by_name("headway").experiment_id])
    assert one.data.params["task"] == "classification" and one.info.status == "FINISHED"
    metrics = {name: client.get_metric_history(one.info.run_id, name) for name in one.data.metrics}
    return 1 + len(others), {name: [(each.step, each.value) for each in kept] for name, kept in metrics.items()}


def trackio(place):
    import sqlite3

    found = {}
    with sqlite3.connect(next((place / "trackio").glob("headway*.db"))) as table:
        rows = table.execute("select run_name, step, metrics from metrics order by id").fetchall()
    for _, step, metrics in rows:
        for name, value in json.loads(metrics).items():
            found.setdefault(name, []).append((step, value))
    return len({run for run, *_ in rows}), found


def wandb(place):
    from wandb.proto import wandb_internal_pb2

    found = {}
    files = sorted((place / "run" / "wandb").glob("offline-run-*/run-*.wandb"))
    for file in files:
        for data in records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            for item in record.history.item:
                if not (name := item.nested_key[0]).startswith("_"):
                    value = float(json.loads(item.value_json))
                    found.setdefault(name, []).append((record.history.step.num, value))
    return len({file.name for file in files}), found


def records(content):
    """The records of a file of Weights & Biases, which is a log of LevelDB with 7 bytes before."""
    at, parts = 7, b""
    while at + 7 <= len(content):
        if (left := 32_768 - at % 32_768) < 7:
            at += left
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole one, or the end of one
            yield parts
            parts = b""


READ = {one.__name__: one for one in (tensorboard, trackio, mlflow, wandb)}


@pytest.fixture(autouse=True)
def kept_here(tmp_path, monkeypatch):
    for name, value in {
        **{"MLFLOW_TRACKING_URI": (tmp_path / "mlruns").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"},
        **{"WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path / "trackio")},
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("name", READ)
def test_a_tracker_has_the_numbers_of_the_log(name, tmp_path, capsys):
    assert READ.keys() == OPENED.keys()
    pytest.importorskip(name)
    headway.train(ROWS, out=tmp_path / "run", track=name, **QUICK)
    headway.train(ROWS, out=tmp_path / "run", track=name, **{**QUICK, "steps": None, "more_steps": 4})
    assert capsys.readouterr().out == ""
    count, found = READ[name](tmp_path)
    assert count == 1
    for event, value in (("step", "loss"), ("step", "norm"), ("evaluation", "val_loss"), ("evaluation", "accuracy")):
        logged = {line["step"]: line[value] for line in read_log(tmp_path / "run", event)}
        assert len(logged) > 4
        assert dict(found[f"{event}/{value}"]) == pytest.approx(logged, rel=1e-6), value


def failing(where):
    """A library whose function fails, and how often it was called."""
    library = types.ModuleType("trackio")
    library.__spec__, library.calls = types.SimpleNamespace(), []

    def tell(method):
        library.calls.append(method)
        if method == where:
            raise ConnectionError("no route to the server\nand more lines")

    run = {"__getattr__": lambda self, method: lambda *args, **named: tell(method)}
    library.init = lambda *args, **named: tell("init") or type("Run", (), run)()
    return library


@pytest.mark.parametrize("where", ["init", "log", "finish"])
def test_a_tracker_that_fails_is_one_warning(where, tmp_path, monkeypatch, capsys):
    library = failing(where)
    monkeypatch.setitem(sys.modules, "trackio", library)
    run = headway.train(ROWS, out=tmp_path / "run", track="trackio", **QUICK)
    said = [line for line in capsys.readouterr().err.splitlines() if "track" in line]
    what = "ConnectionError: no route to the server"
    assert said == [f"warning: --track trackio: cannot be reached ({what}); training goes on without it"]
    assert library.calls.count(where) == 1 and run["steps"] == 6


def test_a_server_that_is_not_there(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    headway.train(ROWS, out=tmp_path / "run", track="mlflow", **QUICK)
    assert capsys.readouterr().err.count("--track mlflow: cannot be reached") == 1


@pytest.mark.parametrize(
    "name, install", [("wandb", "wandb"), ("tensorboard", "'headway[track]'"), ("mlflow", "mlflow-skinny")]
)
def test_a_tracker_that_is_not_installed(name, install, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("headway.training.store.tracking.find_spec", lambda name: None)
    with pytest.raises(InputError, match=re.escape(f"--track {name} needs {name}: pip install {install}")):
        headway.train(ROWS, out=tmp_path / "run", track=name, **QUICK)
    assert not (tmp_path / "run").exists()


def test_one_tracker_at_a_time(tmp_path):
    with pytest.raises(InputError, match="--tensorboard and --track were both given"):
        headway.train(ROWS, out=tmp_path / "run", track="wandb", tensorboard=True, **QUICK)
    words = [sys.executable, "-m", "headway", "train", "rows.csv", "--track", "comet"]
    said = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path).stderr
    assert "'tensorboard', 'trackio', 'mlflow', 'wandb'" in said
