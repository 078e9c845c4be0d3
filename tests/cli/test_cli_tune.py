"""``headway tune``: one JSON object, a line for each trial, and a directory that is a model."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.cli.tune import lines


@pytest.fixture
def small(tiny_words_but: Callable) -> list[str]:
    return [*tiny_words_but(steps=4), "--trials", "2", "--tokenizer", "word", "--r-drop", "0"]


def test_one_json_object_and_a_line_for_each_trial(
    rows: Path, tmp_path: Path, small: list[str], in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    out, err = in_process.passed("tune", rows, *small, "--json")
    found = json.loads(out.splitlines()[-1])
    place = Path("runs/rows-tuned")
    assert {"task", "seconds", "best", "trials", "out", "val_loss", "accuracy", "macro_f1"} <= set(found)
    assert (found["task"], found["out"]) == ("classification", str(place)) and found["seconds"] > 0
    assert set(found["best"]) == {"trial", "value", "options"}
    assert [one["number"] for one in found["trials"]] == [0, 1]
    for one in found["trials"]:
        assert {"number", "state", "value", "options", "seconds"} <= set(one) and one["state"] == "complete"
        assert set(one["options"]) == {"learning_rate", "dropout", "label_smoothing", "token_dropout"}
    assert found["options"]["d_model"] == 16 and found["options"]["steps"] == 4
    assert found["plots"] and all(Path(plot).is_file() for plot in found["plots"])
    assert "1 of 2, trial 0: the preset: val_loss" in err and "2 of 2, trial 1: learning_rate" in err
    assert "searched: --learning-rate, --dropout" in err and (place / "report.html").is_file()
    assert headway.load(place)("a great cat")["label"] in ("pos", "neg")
    interrupted = [*found["trials"], {**found["trials"][0], "state": "interrupted"}]
    assert " failed, 1 interrupted and tried again, " in " ".join(lines({**found, "trials": interrupted}, []))
    again = lines({**found, "options": {"label_column": "my label"}}, ["my rows.csv", "--validation", "other.csv"])[-1]
    assert again.endswith("headway train 'my rows.csv' --validation other.csv --label-column 'my label'")
    out, err = in_process.passed("tune", rows, *small)
    told = out.splitlines()
    assert "this search is complete" in err
    assert told[0].split()[:3] == ["trial", "val_loss", "accuracy"]
    assert f"`headway evaluate {place} FILE`" in out and "measured on 21 rows" in out
    assert f"headway train {rows} " in told[-1] and "--steps 4" in told[-1] and "--learning-rate" in told[-1]


def test_wrong_input_is_status_two(rows: Path, tmp_path: Path, small: list[str], in_process, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, said in (
        ((tmp_path / "none.csv",), "none.csv"),
        ((rows, "--seeds", 3), "--seeds is not for tune"),
        ((rows, "--trials", 1), "--trials is 1"),
        ((rows, "--steps", 4, "--time", "1m"), "one of them"),
        ((rows, "--time", "20s"), "is not enough for a search"),
    ):
        in_process.refused("tune", *words, "--quiet", said=said, lines=1)
    assert in_process("tune")[0] == 2
    monkeypatch.setitem(sys.modules, "optuna", None)
    status, _, err = in_process("tune", rows, *small, "--quiet")
    assert status == 2 and err == "headway: headway tune needs Optuna: pip install 'headway[tune]'.\n"
    assert not Path("runs").exists()


def test_help_says_what_time_and_steps_mean_here(in_process: Callable):
    text = " ".join(in_process.passed("tune", "--help")[0].split())
    assert "Time for the whole search" in text and "Optimizer steps of each trial" in text
    assert "Search the training options" in in_process("--help")[1]
