"""Several processes train what one would: equal losses, checkpoints that any number of them takes up, and one end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from faults_harness import (
    KILL,
    PLAIN,
    Pair,
    apart,
    children_of,
    free_port,
    holds,
    lines_of,
    losses,
    made_pairs,
    wait_for,
    words,
)
from faults_hooks import SLOW

import headway
from headway.errors import InputError
from headway.training.store import checkpoint


def resumed(run: Path) -> list[int]:
    """The steps at which it was taken up."""
    return [line["step"] for line in lines_of(run) if line["event"] == "resume"]


def statuses(ranks: list[Any]) -> list[int]:
    """Those of processes that come to their end."""
    for one in ranks:
        one.wait(60)
    return [one.returncode for one in ranks]


@pytest.mark.parametrize("shard", [False, True], ids=["together", "sharded"])
@pytest.mark.parametrize("task", ["language_modeling", "classification", "translation"])
def test_two_ranks_learn_what_one_process_learns(
    task: str, shard: bool, corpus: Path, rows: Path, tmp_path: Path, pair: Pair
):
    data = made_pairs(tmp_path) if task == "translation" else [rows if task == "classification" else corpus]
    options = {**PLAIN, "token_dropout": 0.0} if task == "classification" else PLAIN  # what is drawn differs by rank
    headway.train(data, out=tmp_path / "one", quiet=True, **options)
    first, second = pair(data, tmp_path / "two", options, *(["--shard"] if shard else []))
    assert apart(tmp_path / "one", tmp_path / "two") < 1e-6
    one, two = (lines_of(tmp_path / name) for name in ("one", "two"))
    values = [[line["val_loss"] for line in lines if line["event"] == "evaluation"] for lines in (one, two)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    assert "saved in" in first.stdout and second.stdout == "" and second.stderr.count("\n") <= 2, "one speaks"


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_sharded_and_averaged(optimizer: str, corpus: Path, tmp_path: Path, pair: Pair):
    """Muon's matrices are put together for their products; rounding differs there, and it grows."""
    options = {**PLAIN, "optimizer": optimizer, "average": 0.9, "accumulate": 2}
    headway.train(corpus, out=tmp_path / "one", quiet=True, **options)
    pair([corpus], tmp_path / "two", options, "--shard", "--checkpoint-activations")
    assert apart(tmp_path / "one", tmp_path / "two") < (1e-5 if optimizer == "muon" else 1e-6)


@pytest.mark.parametrize(
    ("first", "second"), [("1", "2"), ("1", "sharded"), ("2", "1"), ("sharded", "1"), ("sharded", "2")]
)
def test_what_one_number_of_ranks_saved_another_takes_up(
    first: str, second: str, corpus: Path, tmp_path: Path, pair: Pair
):
    def train(how: str, out: Path, options: dict[str, Any]) -> None:
        if how == "1":
            headway.train(corpus, out=out, quiet=True, allow_changes=True, **options)
        else:
            pair([corpus], out, options, "--allow-changes", *(["--shard"] if how == "sharded" else []))

    for (before, after), out in ((("1", "1"), tmp_path / "alone"), ((first, second), tmp_path / "run")):
        train(before, out, PLAIN)
        train(after, out, {**PLAIN, "steps": 20})
    assert apart(tmp_path / "alone", tmp_path / "run") < 1e-6
    assert len(losses(tmp_path / "run")) == 20 and resumed(tmp_path / "run") == [10]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_rank_ends_all_at_the_same_step(rank: int, corpus: Path, tmp_path: Path, pair: Pair):
    options = {**PLAIN, "steps": 40, "dropout": 0.1}
    pair([corpus], tmp_path / "alone", options)
    ranks = pair.start("train", corpus, "--out", tmp_path / "run", *words(options), scripts=(KILL + SLOW,) * 2)
    wait_for(holds(tmp_path / "run" / "log.jsonl", '"step": 3'))
    ranks[rank].send_signal(signal.SIGTERM)
    assert statuses(ranks) == [130, 130], ranks[0].stderr
    steps = len(losses(tmp_path / "run"))
    assert 3 <= steps < 40 and (tmp_path / "run" / "checkpoints" / f"step-{steps}").is_dir()
    pair([corpus], tmp_path / "run", options)
    assert losses(tmp_path / "run") == losses(tmp_path / "alone"), "to the last bit, dropout too"


LATE = """
import time
from headway.training import sharding as shard
honest = shard.save_parts
shard.save_parts = lambda *given: (time.sleep(0.7), honest(*given))
"""


@pytest.mark.parametrize("killed", [0, 1])
def test_the_rank_that_is_left_says_that_the_other_was_lost(killed: int, corpus: Path, tmp_path: Path, pair: Pair):
    options = {**PLAIN, "steps": 4000, "evaluations": 1}
    ranks = pair.start("train", corpus, "--out", tmp_path / "run", *words(options))
    wait_for(holds(tmp_path / "run" / "log.jsonl", '"step": 5'))
    ranks[killed].send_signal(signal.SIGKILL)
    assert statuses(ranks)[1 - killed] == 1
    said = ranks[1 - killed].stderr
    assert "Traceback" not in said and "another of the 2 processes was lost" in said and "same command again" in said


@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_that_saves_late_is_waited_for(late: int, corpus: Path, tmp_path: Path, pair: Pair):
    scripts, run = (LATE, "") if late == 0 else ("", LATE), tmp_path / "run"
    ranks = pair.start("train", corpus, "--out", run, *words(PLAIN), "--shard", scripts=scripts)
    assert statuses(ranks) == [0, 0], ranks[0].stderr
    found = list((run / "checkpoints").iterdir())
    assert found and all(checkpoint._problem(path) is None for path in found), "nothing but whole ones"
    pair([corpus], run, {**PLAIN, "steps": 12}, "--allow-changes")
    assert resumed(run) == [10]


@pytest.mark.parametrize("rank", [0, 1])
def test_when_a_rank_is_killed_all_end_and_the_same_command_goes_on(
    rank: int, corpus: Path, tmp_path: Path, pair: Pair
):
    """The command of the README."""
    options = {**PLAIN, "steps": 4000, "evaluations": 1}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", free_port()]
    command += ["-m", "headway", "train", str(corpus), "--out", str(tmp_path / "run"), *words(options)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, **pipes)
    try:
        wait_for(holds(tmp_path / "run" / "log.jsonl", '"step": 5'))
        wait_for(lambda: len(list((tmp_path / "run" / "checkpoints").glob("step-*"))) > 0)
        ranks = children_of(running.pid)
        assert len(ranks) == 2
        os.kill(ranks[rank], signal.SIGKILL)
        began = time.monotonic()
        running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode != 0 and time.monotonic() - began < 45
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)
    found = list((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert found and all(checkpoint._problem(path) is None for path in found)
    steps = max(int(path.name.split("-")[1]) for path in found)
    pair([corpus], tmp_path / "run", {**options, "steps": steps + 10}, "--allow-changes")
    assert resumed(tmp_path / "run") == [steps]


def test_what_is_for_one_process_or_for_several_is_refused(corpus: Path, rows: Path, tmp_path: Path, pair: Pair):
    with pytest.raises(InputError, match="--shard spreads the weights over several processes"):
        headway.train(corpus, out=tmp_path / "run", quiet=True, shard=True, **PLAIN)
    (tmp_path / "pairs.tsv").write_text("a\tb\n" + "".join(f"the cat {i}\ta cat {i}\n" for i in range(50)))
    columns = ("--task", "embedding", "--text-column", "a", "--second-column", "b")
    ranks = pair.start("train", tmp_path / "pairs.tsv", *columns, "--out", tmp_path / "run", *words(PLAIN))
    ranks[0].wait(30)
    assert ranks[0].returncode == 2 and "for one process; start it without torchrun" in ranks[0].stderr
    ranks[1].send_signal(signal.SIGKILL)  # as torchrun does
    ranks[1].wait(30)
