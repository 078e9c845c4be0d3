"""What each precision costs and gives: measured on the run's data, stored in the run, and taken when it is loaded."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import headway
from headway.errors import InputError
from headway.runtime.precision import available
from headway.tasks.regression.spec import MEAN_ABSOLUTE_ERROR
from headway.training.evaluation.metric import ACCURACY, CHRF, VAL_LOSS
from headway.workflows import precisions as module
from headway.workflows.evaluate import evaluate
from headway.workflows.precisions import best, cost_of, precisions, stored
from headway.workflows.verify.verify import verify

CPU = torch.device("cpu")
LOWER = pytest.mark.skipif("int8" not in available(CPU), reason="this processor computes in float32 only")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("precisions")
    rows = [f"{'good' if n % 2 else 'bad'} thing number {n},{'yes' if n % 2 else 'no'}" for n in range(200)]
    (folder / "rows.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    headway.train(folder / "rows.csv", steps=4, d_model=32, layers=1, heads=2, out=folder / "run", evaluations=1)
    return folder / "run"


def made(value: float | None, per_second: float, name: str = "int8", metric=ACCURACY) -> dict:
    return {"precision": name, "metric": metric, "value": value, "speeds": [{"per_second": per_second}]}


@pytest.mark.parametrize(
    ("exact", "lower", "metric", "expected"),
    [
        ((0.90, 100), (0.895, 150), ACCURACY, "int8"),
        ((0.90, 100), (0.885, 150), ACCURACY, "float32"),  # loses more than a point
        ((0.90, 100), (0.90, 90), ACCURACY, "float32"),  # slower
        ((0.90, 100), (None, 150), ACCURACY, "float32"),  # not measured
        ((2.00, 100), (2.015, 150), VAL_LOSS, "int8"),
        ((2.00, 100), (2.03, 150), VAL_LOSS, "float32"),
        ((50.0, 100), (49.2, 150), CHRF, "int8"),
        ((50.0, 100), (48.8, 150), CHRF, "float32"),
        ((4e5, 100), (4.03e5, 150), MEAN_ABSOLUTE_ERROR, "int8"),  # in proportion, whatever its unit
        ((4e-6, 100), (4.1e-6, 150), MEAN_ABSOLUTE_ERROR, "float32"),
    ],
)
def test_the_best_is_the_fastest_that_loses_next_to_nothing(exact, lower, metric, expected):
    assert best([made(*exact, "float32", metric), made(*lower, "int8", metric)]) == expected


@LOWER
def test_every_precision_is_measured_stored_and_taken(run):
    rows = precisions(str(run), limit=6.0)
    assert [row["precision"] for row in rows] == list(available(CPU))
    for row in rows:
        assert row["metric"] is ACCURACY and 0 <= row["value"] <= 1 and row["bytes"] > 0
        assert {speed["batch"] for speed in row["speeds"]} == {1, 8, 32}
        assert all(speed["per_second"] > 0 for speed in row["speeds"])
    stored(run, rows, "bfloat16")
    facts = json.loads((run / "headway.json").read_text())["precision"]
    assert facts["chosen"] == "bfloat16" and facts["best"] in available(CPU)
    assert headway.load(run).runtime.precision == "bfloat16"
    assert headway.load(run, precision="auto").runtime.precision == facts["best"]
    assert headway.load(run, precision="float32").runtime.precision == "float32"
    assert headway.evaluate(run)["accuracy"] == rows[0]["value"], "measured in float32 whatever the run stores"
    assert "accuracy" in cost_of(str(run), "int8") and "times as fast" in cost_of(str(run), "int8")
    check = next(one for one in verify(run)["checks"] if one["name"] == "precision")
    assert check["passed"] and "bfloat16" in check["what"]


def test_a_part_of_the_held_out_rows_is_measured_where_there_is_no_time_for_all(run, monkeypatch):
    whole = evaluate(run)["examples"]
    assert evaluate(run, most=5)["examples"] == 5 < whole
    assert evaluate(run, most=whole + 1)["accuracy"] == evaluate(run)["accuracy"]
    monkeypatch.setattr(module, "_speeds", lambda *_: iter([{"threads": 1, "batch": 1, "per_second": 1.0}]))
    monkeypatch.setattr(module, "_most", lambda *_: 17)
    assert [row["examples"] for row in precisions(str(run), limit=9.0)] == [17] * len(available(CPU))
    assert {row["examples"] for row in precisions(str(run), limit=9.0, full=True)} == {whole}


def test_every_nth_window_of_a_text_is_measured(tmp_path):
    (tmp_path / "notes.txt").write_text("One ring to rule them all, one ring to find them.\n" * 300)
    out = tmp_path / "run"
    headway.train(tmp_path / "notes.txt", steps=2, d_model=32, layers=1, heads=2, length=32, out=out, evaluations=1)
    whole, some = evaluate(out), evaluate(out, most=4)
    assert 32 < some["examples"] <= 4 * 32 < whole["examples"]


def test_without_time_the_metric_is_left_out(run, monkeypatch):
    monkeypatch.setattr(module, "_speeds", lambda *_: iter([{"threads": 1, "batch": 1, "per_second": 1.0}]))
    assert all(row["value"] is None for row in precisions(str(run), limit=-1.0))


def test_a_directory_that_is_no_run_stores_nothing(run, tmp_path):
    with pytest.raises(InputError, match=r"no headway\.json"):
        stored(tmp_path, [made(1.0, 1.0, "float32")], None)
    assert not list(tmp_path.iterdir())
    (shutil.copytree(run, tmp_path / "model") / "headway.json").unlink()
    with pytest.raises(InputError, match="does not record its training data"):
        precisions(str(tmp_path / "model"), limit=1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        {"chosen": "int8"},
        {"chosen": "int8", "best": 3, "measured": []},
        {"chosen": "int8", "best": "int8", "measured": [{"precision": "int8", "speeds": []}]},
        {"chosen": "int8", "best": "int8", "measured": [{"precision": "int8", "speeds": [{"per_second": 0}]}]},
    ],
)
def test_a_damaged_entry_is_named(run, wrong, tmp_path):
    facts = json.loads((run / "headway.json").read_text())
    for file in run.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "headway.json").write_text(json.dumps({**facts, "precision": wrong, "checksum": None}))
    with pytest.raises(InputError, match="precision"):
        headway.load(tmp_path)


@pytest.mark.parametrize(
    ("units", "metric", "expected"),
    [
        (19, ACCURACY, "float32"),
        (30, ACCURACY, "int8"),
        (4, VAL_LOSS, "float32"),
        (5, VAL_LOSS, "int8"),
        (None, ACCURACY, "int8"),  # what was measured before units were counted
    ],
)
def test_nothing_is_chosen_on_fewer_rows_than_a_verdict_needs(units, metric, expected):
    rows = [{**made(0.9, speed, name, metric), "units": units} for name, speed in (("float32", 100), ("int8", 150))]
    assert best(rows) == expected


@LOWER
def test_a_run_of_few_held_out_rows_goes_on_in_float32_and_says_why(tmp_path, in_process, monkeypatch):
    rows = [f"{'good' if n % 2 else 'bad'} thing number {n},{'yes' if n % 2 else 'no'}" for n in range(60)]
    (tmp_path / "rows.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    run = tmp_path / "run"
    headway.train(tmp_path / "rows.csv", steps=2, d_model=32, layers=1, heads=2, out=run, evaluations=1, quiet=True)
    speed = {"threads": 1, "batch": 1, "latency_ms": 1.0, "per_second": 1.0}
    monkeypatch.setattr(module, "_speeds", lambda *_: iter([speed]))
    monkeypatch.setattr(module, "_most", lambda *_: 17)  # there is time, however busy the machine
    monkeypatch.setattr(module, "_fastest", lambda row: float(row["precision"] == "int8"))
    status, out, err = in_process("bench", "--store", run, "--time", "6s")  # the run may stand behind --store too
    assert status == 0, err
    assert "held-out units were measured: too few to choose by" in out and f"{run} answers in float32" in out
    assert json.loads((run / "headway.json").read_text())["precision"]["best"] == "float32"


@LOWER
def test_what_was_measured_and_what_answers_is_said(run, in_process):
    rows = precisions(str(run), limit=3.0)
    stored(run, rows, "int8")
    status, out, _ = in_process("evaluate", run)
    assert status == 0 and "in float32 (the run answers in int8: --precision int8 measures that)" in out.splitlines()[0]
    status, out, _ = in_process("evaluate", run, "--precision", "int8", "--json")
    found = json.loads(out)
    assert (found["precision"], found["engine"]) == ("int8", "torch")
    assert headway.evaluate(run)["precision"] == "float32"
    status, out, _ = in_process("classify", run, "good thing", "--json")
    assert (json.loads(out)["precision"], json.loads(out)["engine"]) == ("int8", "torch")
