"""Machines beside each other, as agents of torchrun on this one: equal losses, one end, and HSDP."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults_harness import PLAIN, apart, children_of, free_port, holds, lines_of, losses, wait_for, words

import headway
from headway.data.batches.batching import Examples, TargetKind
from headway.errors import InputError
from headway.hub.safe.weights import FILE
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.tasks.losses import Classification
from headway.training.loop.thread_parallel import ThreadParallel
from headway.training.ranks import Ranks

STEPS: dict[str, Any] = {**PLAIN, "steps": 50}


def agents(count: int, each: int, *arguments: object, folders: list[Path] | None = None) -> list[subprocess.Popen[str]]:
    """An agent for each machine, with so many processes."""
    port, started = free_port(), []
    for node in range(count):
        words = ["-m", "torch.distributed.run", "--nnodes", count, "--nproc_per_node", each, "--node_rank", node]
        command = [sys.executable, *map(str, words), "--master_addr", "127.0.0.1", "--master_port", port]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        own = {"cwd": folders[node] if folders else None, "env": environment, "start_new_session": True}
        started.append(subprocess.Popen([*command, *map(str, arguments)], **pipes, **own))
    return started


def ended(running: list[subprocess.Popen[str]], seconds: float = 60) -> list[tuple[int, str]]:
    """The status and the messages of each; none is left."""
    try:
        said = [one.communicate(timeout=seconds)[1] for one in running]
    finally:
        for one in running:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
    return [(one.returncode, text) for one, text in zip(running, said, strict=True)]


def trained(count: int, each: int, data: Path, out: Path, *more: str, **changes: Any) -> None:
    options = words({**STEPS, **changes})
    found = ended(agents(count, each, "-m", "headway", "train", data, "--out", out, *options, *more))
    assert [status for status, _ in found] == [0] * count, found


@pytest.fixture(scope="module")
def one(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process trains."""
    out = tmp_path_factory.mktemp("one") / "run"
    headway.train(corpus, out=out, quiet=True, **STEPS)
    return out


@pytest.mark.thorough
def test_two_machines_train_as_one_process_and_go_on_after_one_is_lost(one: Path, corpus: Path, tmp_path: Path):
    trained(2, 1, corpus, tmp_path / "alone")
    assert len(losses(one)) == 50 and apart(one, tmp_path / "alone") < 1e-5
    run = tmp_path / "run"
    slow = ["-m", "headway", "train", corpus, "--out", run, *words({**STEPS, "save_every": "0.01s"})]
    running = agents(2, 1, *slow)
    wait_for(holds(run / "log.jsonl", '"step": 9,'))
    wait_for(lambda: any((run / "checkpoints").glob("step-*")))
    os.killpg(running[1].pid, signal.SIGKILL)
    for child in children_of(running[1].pid):
        os.kill(child, signal.SIGKILL)
    (status, said), _ = ended(running)
    assert status != 0 and "another of the 2 processes was lost" in said
    assert 9 <= len(losses(run)) < 50
    trained(2, 1, corpus, run)
    assert [line["event"] for line in lines_of(run) if line["event"] in ("resume", "end")] == ["resume", "end"]
    assert losses(run) == losses(tmp_path / "alone"), "to the last bit"
    assert (run / FILE).read_bytes() == (tmp_path / "alone" / FILE).read_bytes()


@pytest.mark.thorough
def test_agents_that_are_asked_to_end_save_the_run(corpus: Path, tmp_path: Path):
    """As a batch system does before the end of a job."""
    out, options = tmp_path / "run", words({**STEPS, "steps": 4000, "save_every": "100s"})
    running = agents(2, 1, "-m", "headway", "train", corpus, "--out", out, *options)
    wait_for(holds(out / "log.jsonl", '"step": 20,'))
    for one in running:
        one.send_signal(signal.SIGTERM)
    ended(running)
    (saved,) = (out / "checkpoints").glob("step-*")
    step = int(saved.name.partition("-")[2])
    assert step >= 20 and [line["event"] for line in lines_of(out)][-1] == "interrupted"
    trained(2, 1, corpus, out, "--allow-changes", steps=step + 5)
    assert [line["step"] for line in lines_of(out) if line["event"] == "resume"] == [step]


@pytest.mark.thorough
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_copies_of_sharded_weights_learn_what_one_process_learns(optimizer: str, corpus: Path, tmp_path: Path):
    options = {"optimizer": optimizer, "average": 0.9}
    headway.train(corpus, out=tmp_path / "one", quiet=True, **{**STEPS, **options})
    trained(2, 2, corpus, tmp_path / "run", "--shard", "--replicas", "2", **options)
    assert apart(tmp_path / "one", tmp_path / "run") < (1e-4 if optimizer == "muon" else 1e-5)


@pytest.mark.thorough
def test_what_copies_saved_other_numbers_take_up(one: Path, corpus: Path, tmp_path: Path):
    run, some = tmp_path / "run", words({**STEPS, "steps": 20})
    first = agents(1, 4, "-m", "headway", "train", corpus, "--out", run, *some, "--shard", "--replicas", "2")
    assert ended(first)[0][0] == 0
    more = ["--allow-changes", "--shard"]
    trained(1, 2, corpus, run, *more)
    assert [line["step"] for line in lines_of(run) if line["event"] == "resume"] == [20]
    assert len(losses(run)) == 50


@pytest.mark.thorough
def test_a_machine_that_does_not_share_the_run_says_so(corpus: Path, tmp_path: Path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    running = agents(2, 1, "-m", "headway", "train", corpus, "--out", "run", *words(STEPS), folders=folders)
    found = ended(running)
    assert all(status != 0 for status, _ in found)
    assert "run: the machines have different runs there; put --out on a disk" in found[1][1]
    (tmp_path / "a" / "run" / "headway.json").replace(tmp_path / "b" / "headway.json")
    (tmp_path / "b" / "run").mkdir()
    (tmp_path / "b" / "headway.json").replace(tmp_path / "b" / "run" / "headway.json")
    shutil.rmtree(tmp_path / "a" / "run")
    found = ended(agents(2, 1, "-m", "headway", "train", corpus, "--out", "run", *words(STEPS), folders=folders))
    assert all(status != 0 for status, _ in found) and "put --out on a disk that all of them share" in found[0][1]


def test_a_process_without_rows_computes_one_that_counts_nothing():
    batch = Examples([[5, 6, 7], [8, 9]], np.array([0, 1]), TargetKind.ROW).together()
    assert [part.idle for part in (Ranks(rank, 4).part(batch) for rank in range(4))] == [False, False, True, True]
    config = TransformerConfig(vocab_size=16, d_model=8, n_layers=1, n_heads=2, max_length=8)
    model = initialise(Encoder(config, ClassificationHead(config, 2)), 0)
    with ThreadParallel(1) as shares:
        loss, count = shares.add_gradient(
            model, Classification(["a", "b"]), Ranks(3, 4).part(batch), "float32", [*model.parameters()]
        )
    assert (loss.item(), count) == (0, 0) and not any(one.grad.any() for one in model.parameters())


def test_copies_that_do_not_fit_the_processes_are_refused(corpus: Path, tmp_path: Path):
    with pytest.raises(InputError, match="--replicas 2 of 1 processes"):
        headway.train(corpus, out=tmp_path / "run", quiet=True, replicas=2, **PLAIN)
