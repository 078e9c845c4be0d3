"""What it costs that a run survives: the same training with everything that this needs, and without any of it.

    python benchmarks/overhead.py TEXT [--steps 400] [--rounds 3] [--save-every 10s]      six minutes on two cores

"with" is ``headway train`` as it is, with a checkpoint each ten seconds, where a minute is usual.  "without" has no
checkpoints, nothing flushed to disk, no watch for bad numbers, no verdicts and no search of the data for them, no batch
tried beforehand, no answer to signals and no lock.  Both run in turn, in processes of their own; the ratio of each
round is of "with" to "without": of the whole command's time, of the training's, and of the processor's time, which
other work on the machine changes least.  Writes benchmarks/results/overhead.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import facts, spread, write

WITHOUT = """
import contextlib
from headway.io import atomic_write
from headway.training.store import checkpoint
from headway.training.store import run_directory
from headway.workflows.train import run as session
from headway.training.loop import state
from headway.training.loop import trainer
from headway.training.health import Health
from headway.training.health import DataProfile

class Nothing:
    asked, latest = False, None
    def __init__(self, *given): pass
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def save(self, *given): pass
    def check(self): pass
    def wait(self): pass
    def poll(self, *given): pass
    def between(self, items): return items
    def waiting(self): return contextlib.nullcontext()
    def allows(self, *given): return True

trainer.Saver = trainer.Stop = Nothing
trainer.LossGuard = lambda *given, **named: Nothing()
trainer.Training.saved = lambda self: ({}, {})
session.try_longest = lambda *given: None
session.known_signs = lambda *given: DataProfile()
state.State.examined = lambda self, *given: Health()
atomic_write.flush = checkpoint.flush = lambda path: None
run_directory.RunDirectory.locked = lambda self: contextlib.nullcontext()
"""
RUN = "from headway.cli.main import main; main()"
MODEL = ["--d-model", "128", "--layers", "4", "--length", "128", "--batch-tokens", "2048", "--evaluations", "10"]


def once(script: str, text: Path, steps: int, every: str, folder: Path) -> dict[str, float]:
    """Seconds of one run: of the whole command, of training, and of the processors."""
    command = ["train", str(text), "--out", str(folder / "run"), "--steps", str(steps), "--save-every", every, *MODEL]
    command += ["--json", "--quiet"]
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script + RUN, *command],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HEADWAY_CACHE": str(folder.parent / "cache")},
    )
    wall, after = time.perf_counter() - began, os.times()
    told = json.loads(done.stdout.splitlines()[-1])
    training = json.loads((folder / "run" / "headway.json").read_text())["training_seconds"]
    used = after.children_user + after.children_system - before.children_user - before.children_system
    print(
        f"{'without' if script else 'with':8} {wall:7.1f} s, training {training:7.1f} s, processors {used:7.1f} s",
        flush=True,
    )
    return {"command": wall, "training": training, "processors": used, "val_loss": told["val_loss"]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save-every", default="10s")
    given = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as name:
        once("", given.text, 1, given.save_every, Path(name) / "first")  # which fills the cache
        for number in range(given.rounds):
            order = ["with", "without"] if number % 2 == 0 else ["without", "with"]
            for how in order:
                script = WITHOUT if how == "without" else ""
                runs[how].append(
                    once(script, given.text, given.steps, given.save_every, Path(name) / f"{how}-{number}")
                )
    losses = {run["val_loss"] for found in runs.values() for run in found}
    assert len(losses) == 1, f"all of them learn the same, but the losses are {losses}"
    pairs = list(zip(runs["with"], runs["without"], strict=True))
    ratios: dict[str, Any] = {
        what: spread([one[what] / other[what] for one, other in pairs])
        for what in ("command", "training", "processors")
    }
    print({what: round(found["median"], 4) for what, found in ratios.items()})
    plan = {"model": MODEL, "steps": given.steps, "save_every": given.save_every}
    write("overhead", {**facts(), **plan, "runs": runs, "ratio": ratios})
