"""Several processes that share a search: each trial once, the same end for all, and nothing lost with one of them."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from faults_harness import wait_for, words

from headway.errors import InputError, RunFailed
from headway.io.file_lock import locked
from headway.science import trials as module
from headway.science.search import Range
from headway.science.trials import Trials
from headway.science.tune import tune
from headway.training.options import TrainOptions

SMALL: dict[str, Any] = {
    **{"d_model": 16, "layers": 1, "length": 16, "steps": 40, "threads": 1, "precision": "float32", "evaluations": 3},
    **{"tokenizer": "word", "r_drop": 0.0, "batch_tokens": 128, "log_every": 1},
}
SPACE = {"dropout": Range(0.1, 0.0, 0.5)}


def begun(rows: Path, out: Path, trials: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "headway", "tune", rows, "--trials", trials, *words(SMALL), "--json", "--out", out]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen([*map(str, command)], stdout=pipe, stderr=pipe, text=True, env=environment)


@pytest.mark.thorough
def test_three_processes_share_a_search_of_which_one_is_killed(rows: Path, tmp_path: Path):
    out = tmp_path / "tuned"
    running = [begun(rows, out, 8) for _ in range(3)]
    try:
        wait_for(lambda: len(list((out / "trials").glob("*.lock"))) == 3)
        wait_for(lambda: len(list((out / "trials").glob("*/log.jsonl"))) >= 3)
        running[0].send_signal(signal.SIGKILL)
        ended = [one.communicate(timeout=180) for one in running]
    finally:
        for one in running:
            one.kill()
    assert [one.returncode for one in running] == [-9, 0, 0], ended
    found, other = (json.loads(said.splitlines()[-1]) for said, _ in ended[1:])
    states = [one["state"] for one in found["trials"]]
    assert states.count("interrupted") == 1 and len(states) == 9, "the killed one again, and no other twice"
    assert found["trials"] == other["trials"] and found["best"] == other["best"]
    tried = [json.dumps(one["options"]) for one in found["trials"] if one["state"] != "interrupted"]
    assert len(set(tried)) == 8
    facts = json.loads((out / "headway.json").read_text())["tuning"]
    assert facts["finished"] and facts["trial"] == found["best"]["trial"] and facts["trials"] == 8
    assert not list((out / "trials").glob("*.lock")) or states.count("interrupted")
    best = out / "trials" / f"{found['best']['trial']:03}" / "model.safetensors"
    assert (out / "model.safetensors").read_bytes() == best.read_bytes()


def test_trials_that_others_have_begun_are_theirs_until_they_are_gone(tmp_path: Path):
    first, second = (Trials(tmp_path / "tune.db", seed=0) for _ in range(2))
    first.first({"dropout": 0.1})
    one, other = first.next(SPACE, evaluations=1, planned=4), second.next(SPACE, evaluations=1, planned=4)
    assert first.running() == second.running() == [one.number, other.number] == [0, 1]
    assert one.options != other.options
    assert second.try_again(lambda number: False) == [] and second.try_again(lambda number: number == 0) == [0]
    again = second.next(SPACE, evaluations=1, planned=4)
    assert again.options == one.options and second.running() == [1, 2]


def test_a_lock_is_held_by_one_and_shared_by_those_who_share_it(tmp_path: Path):
    path = tmp_path / "a.lock"
    with locked(path) as alone:
        assert alone
        with pytest.raises(BlockingIOError), locked(path):
            pass
        with pytest.raises(BlockingIOError), locked(path, shared=True):
            pass
    with locked(path, shared=True) as first, locked(path, shared=True) as second:
        assert (first, second) == (True, False)
        with pytest.raises(BlockingIOError), locked(path):
            pass
    with locked(path):
        pass


def test_a_search_whose_file_is_locked_says_so(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "LOCKED_FOR", 0.2)
    options = TrainOptions(**{**SMALL, "steps": 2})
    tune([rows], options, trials=2, out=tmp_path / "tuned")
    with sqlite3.connect(tmp_path / "tuned" / "tune.db", isolation_level=None) as other:
        other.execute("begin exclusive")
        began = time.monotonic()
        with pytest.raises((InputError, RunFailed), match=r"tune\.db: cannot be .*database is locked"):
            tune([rows], options, trials=3, out=tmp_path / "tuned")
        assert time.monotonic() - began < 30
        other.execute("rollback")
    assert len(tune([rows], options, trials=3, out=tmp_path / "tuned")["trials"]) == 3
