"""Workers that make batches ready change nothing but speed; a run that loses one, or its data, can be taken up."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from faults_harness import KILL, LIVELY, Forked, Forker, alone, children_of, holds, made_pairs, outcome, wait_for, words
from faults_hooks import SLOW

import headway

FAULT = """
from headway.data.batches import batch_source
from headway.training.loop import prefetch as ahead
ahead.PATIENCE = 2.0
honest, trainer_process = batch_source.TextBatches.next, os.getpid()
def faulty(self, position):
    if position.consumed >= 60 and os.getpid() != trainer_process:
        {what}
    return honest(self, position)
batch_source.TextBatches.next = faulty
"""
"""A worker meets a fault in the middle of the run."""


@pytest.mark.parametrize("kind", ["text", "rows", "pairs"])
def test_workers_change_nothing(kind: str, corpus: Path, rows: Path, tmp_path: Path, tiny: dict):
    data = {"text": [corpus], "rows": [rows], "pairs": made_pairs(tmp_path)}[kind]
    options = {**tiny, **LIVELY, **({"bpe_dropout": 0.2} if kind == "pairs" else {})}
    assert alone(data, {**options, "workers": 2}, tmp_path / "two") == alone(data, options, tmp_path / "none")


FAULTS = {
    "a worker that is killed": ("os.kill(os.getpid(), signal.SIGKILL)", 1, "--workers 2"),
    "a read that hangs": ("signal.pause()", 1, "timed out"),
    "a file that cannot be read": ("raise OSError(5, 'Input/output error', 'shard-7')", 2, "shard-7"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_worker_with_a_fault_ends_the_run_which_can_be_taken_up(
    fault: str, corpus: Path, tmp_path: Path, whole: Any, forker: Forker
):
    (what, status, said), (options, expected), run = FAULTS[fault], whole, tmp_path / "run"
    given = ("train", corpus, "--out", run, *words(options), "--workers", 2)
    ended = forker(*given, script=KILL + FAULT.format(what=what), timeout=40)
    assert ended.returncode == status, ended.stderr
    assert said in ended.stderr and "examples " in ended.stderr and "Traceback" not in ended.stderr
    headway.train(corpus, out=run, quiet=True, workers=1, **options)
    assert outcome(run) == expected


def in_the_middle(corpus: Path, run: Path, options: dict[str, Any], forker: Forker) -> tuple[Forked, list[int]]:
    """A run with two workers that has come to its sixth step, and their processes."""
    given = ("train", corpus, "--out", run, *words(options), "--workers", 2)
    running = forker.start(*given, script=KILL + SLOW)
    wait_for(holds(run / "log.jsonl", '"step": 6'))
    return running, children_of(running.pid)


def test_stopped_with_workers_and_taken_up_with_others(corpus: Path, tmp_path: Path, whole: Any, forker: Forker):
    """Ctrl-C reaches the whole group of a shell's processes; here the trainer's, who ends its workers."""
    (options, expected), run = whole, tmp_path / "run"
    running, workers = in_the_middle(corpus, run, options, forker)
    assert len(workers) == 2
    for process in (running.pid, *workers):
        os.kill(process, signal.SIGINT)
    running.wait(30)
    assert running.returncode == 130 and "Traceback" not in running.stderr, running.stderr
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    headway.train(corpus, out=run, quiet=True, **options)
    assert outcome(run) == expected


def test_no_worker_outlives_a_trainer_that_is_killed(corpus: Path, tmp_path: Path, whole: Any, forker: Forker):
    (options, expected), run = whole, tmp_path / "run"
    running, workers = in_the_middle(corpus, run, options, forker)
    running.send_signal(signal.SIGKILL)
    running.wait(30)
    wait_for(lambda: not any(alive(worker) for worker in workers), 15)
    headway.train(corpus, out=run, quiet=True, workers=2, **options)
    assert outcome(run) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_tokens_that_are_cut_short_meanwhile(
    workers: int, corpus: Path, tmp_path: Path, whole: Any, forker: Forker, monkeypatch: pytest.MonkeyPatch
):
    (options, expected), run, cache = whole, tmp_path / "run", tmp_path / "cache"
    monkeypatch.setenv("HEADWAY_CACHE", str(cache))
    given = ("train", corpus, "--out", run, *words(options), "--workers", workers)
    running = forker.start(*given, script=KILL + SLOW, environment={"HEADWAY_CACHE": str(cache)})
    wait_for(holds(run / "log.jsonl", '"step": 4'))
    largest = max((path for path in cache.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    os.truncate(largest, 100)
    running.wait(40)
    assert running.returncode == 2 and "shorter than it was" in running.stderr and "Traceback" not in running.stderr
    headway.train(corpus, out=run, quiet=True, workers=workers, **options)
    assert outcome(run) == expected


def alive(process: int) -> bool:
    """Whether a process is there and no mere entry of one that has ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
