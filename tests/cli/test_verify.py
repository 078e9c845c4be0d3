"""``headway verify``: a table or one JSON object, and the exit status."""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.workflows.verify import verify
from headway.workflows.verify.check import Check


@pytest.fixture(autouse=True)
def without_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/science has the check of resume; transformers is not asked."""
    skipped = Check("resume", "training", skipped="not here")
    monkeypatch.setattr(verify, "check_resume", lambda *given: skipped)
    monkeypatch.setitem(sys.modules, "transformers", None)


def test_one_json_object(lm_run: Path, in_process: Callable):
    found = in_process.json("verify", lm_run, "--quiet")
    assert set(found) == {"task", "seconds", "checks"}
    assert found["task"] == "language_modeling" and found["seconds"] > 0
    assert {check["name"]: check["passed"] for check in found["checks"]} == {
        **dict.fromkeys(["cache", "batch", "accumulation", "checkpoints"], True),
        **{"precision": None, "engines": None, "export": None, "resume": None},  # what nobody else read is not passed
    }
    for check in found["checks"]:
        assert {"name", "passed", "value", "bound"} <= set(check)
    export, _, resume = found["checks"][-3:]
    assert "not checked: transformers is not installed" in export["skipped"] and export["transformers"] is None
    assert resume["skipped"] == "not here" and resume["value"] is None


def test_a_table_and_progress(classifier_run: Path, in_process: Callable):
    status, out, err = in_process("verify", classifier_run)
    lines = out.splitlines()
    assert status == 0 and lines[0].split() == ["check", "result", "difference", "bound", "seconds"]
    assert [line.split()[:2] for line in lines[1::2]] == [
        *(["cache", "skipped"], ["batch", "passed"], ["precision", "skipped"], ["engines", "skipped"]),
        *(["accumulation", "passed"], ["export", "skipped"], ["checkpoints", "passed"], ["resume", "skipped"]),
    ]
    assert all(line.startswith("    ") for line in lines[2::2]) and "writes no text" in lines[2]
    assert "reading texts together and one by one ..." in err


def test_a_promise_that_is_not_kept_is_status_one(lm_run: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch):
    broken = Check("cache", "logits", float("nan"), 1e-5, more={"tokens_equal": False})
    monkeypatch.setattr(verify, "check_cache", lambda *given: broken)
    status, out, err = in_process("verify", lm_run, "--json", "--quiet")
    check = json.loads(out.splitlines()[-1])["checks"][0]
    assert status == 1 and check["passed"] is False and check["value"] is None
    assert err == f"headway: {lm_run}: failed: cache.\n"
    status, out, _ = in_process("verify", lm_run, "--quiet")
    assert status == 1 and out.splitlines()[1].split()[:4] == ["cache", "FAILED", "nan", "1e-05"]


def test_wrong_input_is_status_two(lm_run: Path, tmp_path: Path, in_process: Callable):
    (tmp_path / "empty").mkdir()
    run = shutil.copytree(lm_run, tmp_path / "run")
    (run / "headway.json").write_text('{"task": ')
    for place, said in ((tmp_path / "none", "none"), (tmp_path / "empty", "config.json"), (run, "headway.json")):
        in_process.refused("verify", place, "--quiet", said=said, lines=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(number: int, lm_run: Path, tmp_path: Path, in_process, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(verify, "check_batch", lambda *given: os.kill(os.getpid(), number))
    status, out, err = in_process("verify", lm_run, "--quiet")
    assert (status, out, err.strip()) == (130, "", "headway: interrupted")
    assert not any(tmp_path.iterdir()) and signal.getsignal(signal.SIGTERM) is before
