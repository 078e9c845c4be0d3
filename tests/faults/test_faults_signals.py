"""Signals: the first saves and says how to go on, in whatever phase it comes; the second ends the program at once."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from faults_harness import KILL, Forker, holds, losses, outcome, wait_for, words
from faults_hooks import SLOW

import headway

SLOW_EVALUATION = """
import time
from headway.data.batches import batch_source
honest, calls = batch_source.TextBatches.validation, []
def slow(self):
    calls.append(1)
    for batch in honest(self):
        if len(calls) == 3:
            open({mark!r}, "w").close()
            time.sleep(0.3)
        yield batch
batch_source.TextBatches.validation = slow
"""

SLOW_SAVE = """
import time
write = checkpoint.save_file
def slow(tensors, path):
    write(tensors, path)
    if ".step-6." in str(path):
        open({mark!r}, "w").close()
        time.sleep(1.5)
checkpoint.save_file = slow
"""

STALLED_DATA = """
import time
from headway.data.batches import batch_source
following, calls = batch_source.TextBatches.next, []
def stalled(self, position):
    calls.append(1)
    if len(calls) == 12:
        open({mark!r}, "w").close()
        time.sleep(600)
    return following(self, position)
batch_source.TextBatches.next = stalled
"""

FIRST_STEP = """
import time
from headway.training.loop.thread_parallel import ThreadParallel
honest, calls = ThreadParallel.add_gradient, []
def slow(*given):
    calls.append(1)
    if len(calls) == 2:  # after the longest batch was tried
        open({mark!r}, "w").close()
        time.sleep(1)
    return honest(*given)
ThreadParallel.add_gradient = slow
"""

PHASES = {
    "the first step": (FIRST_STEP, signal.SIGTERM),
    "an evaluation": (SLOW_EVALUATION, signal.SIGUSR1),
    "a save": (SLOW_SAVE, signal.SIGTERM),
    "data that do not come": (STALLED_DATA, signal.SIGUSR1),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_is_answered_in_every_phase(phase: str, corpus: Path, tmp_path: Path, whole: Any, forker: Forker):
    (script, number), (options, expected) = PHASES[phase], whole
    mark, run = tmp_path / "mark", tmp_path / "run"
    running = forker.start("train", corpus, "--out", run, *words(options), script=KILL + script.format(mark=str(mark)))
    wait_for(mark.exists)
    began = time.monotonic()
    running.send_signal(number)
    running.wait(60)
    err = running.stderr
    assert time.monotonic() - began < 30
    assert running.returncode == 130 and "Traceback" not in err, err
    saved = max(int(path.name.split("-")[1]) for path in (run / "checkpoints").glob("step-*"))
    assert saved == max(losses(run), default=0)
    headway.train(corpus, out=run, quiet=True, **options)
    assert outcome(run) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(
    number: signal.Signals, corpus: Path, tmp_path: Path, whole: Any, forker: Forker
):
    (options, expected), run = whole, tmp_path / "run"
    running = forker.start("train", corpus, "--out", run, *words(options), script=KILL + SLOW)
    wait_for(holds(run / "log.jsonl", '"step": 3'))
    running.send_signal(number)
    running.wait(30)
    err = running.stderr
    assert running.returncode == 130 and running.stdout == "" and "Traceback" not in err
    assert "run the same command again to resume" in err and str(run) in err
    steps = len(losses(run))
    assert 3 <= steps < 20 and (run / "checkpoints" / f"step-{steps}").is_dir()
    headway.train(corpus, out=run, quiet=True, **options)
    assert outcome(run) == expected


def test_a_second_signal_ends_it_at_once(corpus: Path, tmp_path: Path, tiny: dict, forker: Forker):
    stuck = KILL + "import time\nfactor = trainer.factor\n"
    stuck += "trainer.factor = lambda share, *rest: time.sleep(60) if share > 0.2 else factor(share, *rest)\n"
    tiny = {**tiny, "log_every": 1}
    running = forker.start("train", corpus, "--out", tmp_path / "run", *words(tiny), script=stuck)
    wait_for(holds(tmp_path / "run" / "log.jsonl", '"step": 5'))
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert running.poll() is None, "the first only asks"
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    running.wait(30)
    assert time.monotonic() - began < 5
    assert running.returncode == 130 and "Traceback" not in running.stderr
