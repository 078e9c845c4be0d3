"""Memory: it does not grow with the text; where it is too little, one message says where it was and what would help."""

import itertools
import re
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import LIVELY, TINY, Forker, alone, outcome, words
from growing_text import peak, write_text

import headway
from headway.tasks.losses import LanguageModeling
from headway.training.hardware.memory import OutOfMemory, out_of_memory
from headway.training.store import checkpoint, run_directory
from headway.training.store.checkpoint import newest_checkpoint
from headway.workflows.evaluate import evaluate
from headway.workflows.train import run as session

CPU = (
    "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "40960000000 bytes. Error code 12 (Cannot allocate memory)"
)
ERRORS = [RuntimeError(CPU), torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), MemoryError()]
OPTIONS: dict[str, Any] = {**TINY, **LIVELY, "grow_batch": 1, "save_every": "0.000001s"}
KNOBS = ("--batch-tokens 128 --accumulate 4", "now 256 and 2", "--length below 32", "--precision bfloat16", "--preset")
BOUNDS = """
import headway.tasks.baselines as ngram, headway.text.train as train
ngram.CHUNK = ngram.MOST_PAIRS = 50_000
train.MOST_CHARACTERS = 500_000
"""
"""A twentieth of what they are, for files that are about so much smaller than those of benchmarks/memory.py."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_times_the_text_needs_no_more_memory(tmp_path: Path, tiny: dict):
    """The least of three runs, since what threads hold at once makes some 15 % of it a matter of chance."""
    options = words({**tiny, "layers": 1, "vocab": 300, "steps": 3, "length": 128, "evaluations": 1})
    found = []
    for size in (1, 10):
        data, peaks = tmp_path / f"{size}.txt", []
        write_text(data, size * 1_000_000)
        for again in range(3):
            run, cache = (tmp_path / f"{name}-{size}-{again}" for name in ("run", "cache"))
            peaks.append(peak(["train", data, "--out", run, *options], cache, BOUNDS)["resident"])
        found.append((min(peaks), peak(["evaluate", run, "--threads", 1], cache)["resident"]))
    (train, evaluation), (train_more, evaluation_more) = found
    assert train_more < 1.1 * train and evaluation_more < 1.1 * evaluation, found


def failing(call: Callable, error: Exception, at: int, which: Callable[..., bool]) -> Callable:
    """A function that fails at its n-th call of those that are meant."""
    count = itertools.count(1)

    def instead(*given: Any, **named: Any) -> Any:
        if which(*given) and next(count) == at:
            raise error
        return call(*given, **named)

    return instead


PLACES = {
    "the longest batch": (LanguageModeling, "loss", 1, "at the longest batch, tried before step 1"),
    "the longest evaluation": (LanguageModeling, "evaluate", 1, "at the longest batch, tried before step 1"),
    "the first step": (LanguageModeling, "loss", 2, "at step 1"),
    "step 7": (LanguageModeling, "loss", 15, "at step 7"),
    "an evaluation": (LanguageModeling, "evaluate", 3, "at the evaluation after step 8"),
    "a copy of what is to be saved": (checkpoint, "copied", 5, "while step 4 was saved"),
    "a checkpoint": (checkpoint, "save_file", 14, "while step 4 was saved"),
    "the model": (run_directory, "save_any", 3, "while the model was saved"),
}
"""By what fails: its place, its name, which of its calls (of losses those in training); and what is said of it."""


@pytest.mark.parametrize("number, place", list(enumerate(PLACES)))
def test_out_of_memory_is_one_error_and_nothing_else_changes(
    number: int, place: str, corpus: Path, expected: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    module, name, at, said = PLACES[place]
    error, run = ERRORS[number % 3], tmp_path / "run"
    meant = (lambda *given: given[1].training) if name == "loss" else lambda *given: True
    monkeypatch.setattr(module, name, failing(getattr(module, name), error, at, meant))
    with pytest.raises(OutOfMemory) as caught:
        headway.train(corpus, out=run, quiet=True, **OPTIONS)
    message = str(caught.value)
    assert re.match(rf"out of memory {said}( \(|\. )", message) and all(knob in message for knob in KNOBS), message
    assert ("41 GB" in message) == (error is ERRORS[0])
    monkeypatch.undo()
    _, problems = newest_checkpoint(run / "checkpoints")
    assert not problems and not list(run.glob("checkpoints/.*"))
    if "tried" in said:
        assert not run.exists(), "and so the next command may have other options"
    headway.train(corpus, out=run, quiet=True, **OPTIONS)
    assert outcome(run) == expected(corpus, OPTIONS)


@pytest.mark.parametrize("error", ERRORS, ids=["CPU", "GPU", "Python"])
def test_every_kind_of_error_is_known(error: Exception):
    """Without a plan, what ran out are the data or a model: other batches would not help."""
    with pytest.raises(OutOfMemory, match=r"here.*\. Close other programs, give less data"), out_of_memory("here"):
        raise error


def test_other_errors_stay_what_they_are():
    with pytest.raises(RuntimeError, match="shapes"), out_of_memory("here"):
        raise RuntimeError("shapes cannot be multiplied")
    with pytest.raises(OutOfMemory, match="deep inside"), out_of_memory("here"), out_of_memory("deep inside"):
        raise MemoryError


def test_on_the_command_line_it_is_a_message_and_status_1(forker: Forker, corpus: Path, tmp_path: Path, tiny: dict):
    """What the system itself refuses: a batch of two million tokens where a gigabyte more is allowed."""
    script = """
import resource
from pathlib import Path
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 1_000_000_000, resource.RLIM_INFINITY))
"""
    options, run = {**tiny, "d_model": 64, "length": 128}, tmp_path / "run"
    large = words({**options, "batch_tokens": 2_000_000})
    done = forker("train", corpus, "--out", run, *large, script=script)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "headway: out of memory at the longest batch, tried before step 1 (" in done.stderr
    assert "--batch-tokens 1000000 --accumulate 2" in done.stderr and not run.exists()
    done = forker("train", corpus, "--out", run, *words(options), script=script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("data", ["corpus", "rows"])
def test_trying_the_longest_batch_changes_nothing(
    data: str, tmp_path: Path, tiny: dict, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    file, options = request.getfixturevalue(data), {**tiny, **LIVELY}
    times: list[int] = []

    def watched(job: Any, tried: Callable = session.try_longest) -> None:
        model = job.model
        before, random = {name: p.clone() for name, p in model.named_parameters()}, torch.get_rng_state()
        tried(job)
        assert torch.equal(random, torch.get_rng_state())
        assert all(p.grad is None and torch.equal(p, before[name]) for name, p in model.named_parameters())
        times.append(1)

    monkeypatch.setattr(session, "try_longest", watched)
    with_it = alone([file], options, tmp_path / "tried")
    monkeypatch.setattr(session, "try_longest", lambda *given: None)
    assert alone([file], options, tmp_path / "not tried") == with_it
    assert times == [1]


def test_evaluation_of_a_text_streams(lm_run: Path, monkeypatch: pytest.MonkeyPatch):
    """At most one batch is alive at a time."""
    alive: list[Any] = []

    def watched(task: Any, model: Any, batch: Any, loss: Callable = LanguageModeling.loss) -> Any:
        alive[:] = [*(ref for ref in alive if ref() is not None), weakref.ref(batch)]
        assert len(alive) <= 2
        return loss(task, model, batch)

    monkeypatch.setattr(LanguageModeling, "loss", watched)
    assert evaluate(lm_run)["val_loss"] > 0
