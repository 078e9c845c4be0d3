"""Runs that are ended at random moments and begun again until they are over: each must end as the run left alone."""

import random
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faults_harness import Forker, lines_of, made_pairs, outcome, words

from headway.training.store import checkpoint

SMALL: dict[str, Any] = {
    **{"d_model": 32, "layers": 3, "heads": 2, "length": 32, "batch_tokens": 256, "steps": 40, "threads": 1},
    **{"precision": "float32", "dropout": 0.1, "accumulate": 2, "average": 0.9, "log_every": 1, "evaluations": 5},
    **{"save_every": "0.05s", "seed": 3},
}
"""About 50,000 parameters."""
TASKS = ("language_modeling", "classification", "translation")


@dataclass
class Kills:
    """What came of so many of them."""

    kills: int = 0
    runs: int = 0
    """that were begun, and that ended"""
    equal: int = 0
    """of these, whose losses, weights and metrics were those of the run left alone, to the last bit"""
    torn: int = 0
    """checkpoints that had their name and were not whole"""
    refused: int = 0
    """commands that did not go on by themselves"""
    most_steps_lost: int = 0
    most_seconds_lost: float = 0.0
    most_seconds_to_end: float = 0.0
    """from the signal to the end of the process"""
    before_the_first_step: int = 0
    """kills while reading, tokenising or planning"""
    problems: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def data_for(task: str, folder: Path) -> list[Path]:
    """Files to train on."""
    folder.mkdir(parents=True, exist_ok=True)
    if task == "translation":
        return made_pairs(folder)
    choose = random.Random(5)
    lines = [" ".join(choose.choices(["the", "cat", "sat", "on", "a", "mat", "old", "dogs"], k=11)) for _ in range(401)]
    if task == "language_modeling":
        path = folder / "corpus.txt"
        path.write_text("".join(f"{line}\n" for line in lines))
    else:
        path = folder / "rows.csv"
        path.write_text("text,label\n" + "".join(f"{line},{'pos' if 'mat' in line else 'neg'}\n" for line in lines))
    return [path]


def kill_at_random(
    forker: Forker, folder: Path, count: int, seed: int, signals: Sequence[int] = (signal.SIGKILL,)
) -> Kills:
    """Send a signal ``count`` times, each of them in turn, at moments drawn from the time that a run takes."""
    choose, found = random.Random(seed), Kills()
    alone: dict[str, tuple[Any, float]] = {}
    while found.kills < count:
        task = TASKS[found.runs % len(TASKS)]
        data = data_for(task, folder / task)
        if task not in alone:
            began = time.monotonic()
            whole = forker("train", *data, "--out", folder / f"alone-{task}", *words(SMALL), script=cache(folder, task))
            assert whole.returncode == 0, whole.stderr
            alone[task] = outcome(folder / f"alone-{task}"), time.monotonic() - began
        expected, seconds = alone[task]
        found.runs += 1
        run = folder / f"run-{found.runs}"
        while not ended(
            forker, run, data, choose.uniform(0.0, 0.6 * seconds), found, count, signals[found.kills % len(signals)]
        ):
            pass
        if outcome(run) == expected:
            found.equal += 1
        else:
            found.problems.append(f"run {found.runs} ({task}) is another than the one left alone")
    return found


def ended(forker: Forker, run: Path, data: list[Path], after: float, found: Kills, count: int, number: int) -> bool:
    """Whether a command came to its end before it was sent a signal, ``after`` so many seconds.

    One that only asks is answered by status 130, or, before training begins, as the system answers it.
    """
    running = forker.start("train", *data, "--out", run, *words(SMALL), script=cache(run.parent, run.name))
    end = time.monotonic() + after
    while (found.kills >= count or time.monotonic() < end) and running.poll() is None:
        time.sleep(0.002)
    sent = time.monotonic()
    if running.poll() is None:
        running.send_signal(number)
    running.wait(60)
    if running.returncode == 0:
        return True
    found.most_seconds_to_end = max(found.most_seconds_to_end, time.monotonic() - sent)
    if running.returncode != -number and (number == signal.SIGKILL or running.returncode != 130):
        found.refused += 1
        found.problems.append(f"status {running.returncode}: {running.stderr[-500:]}")
        return True
    found.kills += 1
    _look(run, found)
    return False


def _look(run: Path, found: Kills) -> None:
    """What a kill left: whole checkpoints, and how much of the work."""
    names = {int(path.name.split("-")[1]): path for path in (run / "checkpoints").glob("step-*")}
    for path in names.values():
        problem = checkpoint._problem(path)
        if problem is not None:
            found.torn += 1
            found.problems.append(f"{path.name}: {problem}")
    log = run / "log.jsonl"
    steps = [line for line in lines_of(run) if line["event"] == "step"] if log.exists() else []
    if not steps:
        found.before_the_first_step += 1
        return
    saved = max(names, default=0)
    seconds = {line["step"]: line["seconds"] for line in steps}
    found.most_steps_lost = max(found.most_steps_lost, steps[-1]["step"] - saved)
    found.most_seconds_lost = max(found.most_seconds_lost, steps[-1]["seconds"] - seconds.get(saved, 0.0))


def cache(folder: Path, name: str) -> str:
    """A script that gives a run a cache of its own, so that its tokens are made anew."""
    return f"import os\nos.environ['HEADWAY_CACHE'] = {str(folder / f'cache-{name}')!r}\n"
