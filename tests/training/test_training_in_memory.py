"""A frame trains what a file with the same rows trains, and the run says what it was trained on."""

from pathlib import Path

import pandas
import pytest
from faults_harness import facts_of

import headway
from headway.errors import InputError
from headway.workflows.evaluate import evaluate

ROWS = [{"text": f"a {('good', 'bad')[i % 2]} day number {i}", "label": ("pos", "neg")[i % 2]} for i in range(120)]


def test_a_frame_trains_as_its_file_does(tmp_path: Path):
    frame = pandas.DataFrame(ROWS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    asked = {"steps": 3, "evaluations": 1, "seed": 1, "quiet": True}
    one, other = (
        headway.train(given, out=tmp_path / name, **asked)
        for name, given in (("file", tmp_path / "t.csv"), ("frame", frame))
    )
    assert one["val_loss"] == other["val_loss"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("file", "frame")]
    assert weights[0] == weights[1]
    data = facts_of(tmp_path / "frame")["data"]
    assert data["inputs"] == ["a pandas frame of 120 rows"] and data["in_memory"] is True
    assert headway.train(frame, out=tmp_path / "frame", **asked)["val_loss"] == one["val_loss"]  # it is complete
    with pytest.raises(InputError, match="holds a run on other data than a pandas frame of 119 rows"):
        headway.train(frame[1:], out=tmp_path / "frame", **asked)
    with pytest.raises(InputError, match="was trained on a pandas frame of 120 rows in memory; write those rows to a"):
        evaluate(tmp_path / "frame")
    found = [evaluate(tmp_path / "frame", given) for given in (frame, ROWS)]
    assert found[0]["val_loss"] == found[1]["val_loss"] == pytest.approx(one["val_loss"], abs=1e-6)
    assert evaluate(tmp_path / "frame", [tmp_path / "t.csv"])["examples"] == 120


def test_what_is_no_data_is_one_message():
    with pytest.raises(InputError, match="cannot be used: expected names of files, a pandas or polars frame"):
        headway.train(7)


def test_lists_of_texts_without_blanks_train(tmp_path: Path):
    """Sums, as a teacher passes them: no name of a file among them."""
    sums = [f"{a}+{b}={a + b}" for a in range(31) for b in range(9)]
    asked = {"steps": 2, "evaluations": 1, "quiet": True}
    assert headway.train(sums, out=tmp_path / "text", **asked)["task"] == "language_modeling"
    labels = ["even" if int(one.split("=")[1]) % 2 == 0 else "odd" for one in sums]
    assert headway.train(sums, labels, out=tmp_path / "labels", **asked)["task"] == "classification"
    data = facts_of(tmp_path / "labels")["data"]
    assert data["inputs"] == ["texts with labels of 279 rows"]
