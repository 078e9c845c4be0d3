"""Training that is killed and saved over and over: the long form of the tests in tests/faults.

    python benchmarks/faults.py [--kills 200] [--signals 60] [--saves 500]

Runs of language models, classifiers and translators with about 50,000 parameters are killed at random moments (SIGKILL)
and begun again by the same command until they end; each is compared with one that was left alone.  So it is done with
SIGTERM, SIGINT and SIGUSR1 in turn, which may not lose a single step.  Then checkpoints are written in one process; its
memory and open files must not grow.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
from machine import facts, write

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "faults"))
from faults_harness import Forker
from killing import kill_at_random

from headway.training.store.checkpoint import Saver


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def saves(folder: Path, count: int) -> dict[str, object]:
    """Write and remove so many checkpoints of 50,000 parameters with two moments each."""
    tensors = {f"{part}.{i}": torch.randn(100, 100) for part in ("model", "first", "second") for i in range(5)}
    writer, problems = Saver(folder, lambda text: problems.append(text)), []
    for step in range(1, count + 1):
        writer.save(step, tensors, {"step": step})
        if step == count // 10:
            writer.wait()
            before = resident(), len(list(Path("/proc/self/fd").iterdir()))
    writer.wait()
    after = resident(), len(list(Path("/proc/self/fd").iterdir()))
    left = sorted(path.name for path in folder.iterdir())
    return {
        "saves": count,
        "resident_bytes": {"after a tenth": before[0], "at the end": after[0], "ratio": after[0] / before[0]},
        "open_files": {"after a tenth": before[1], "at the end": after[1]},
        "left": left,
        "problems": problems,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--signals", type=int, default=60)
    parser.add_argument("--saves", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.monotonic()
        (folder / "forked").mkdir()
        forker = Forker(folder / "forked")
        kills = kill_at_random(forker, folder, given.kills, given.seed)
        seconds = time.monotonic() - began
        (folder / "asked").mkdir()
        asking = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
        asked = kill_at_random(forker, folder / "asked", given.signals, given.seed, asking)
        forker.close()
        result = {
            **facts(),
            "random_kills": {**kills.plain(), "seed": given.seed, "seconds": seconds},
            "random_signals": asked.plain(),
            "saves": saves(folder / "saves", given.saves),
        }
    write("faults", result)
    whole = all(not one.problems and one.equal == one.runs for one in (kills, asked)) and asked.most_steps_lost == 0
    sys.exit(0 if whole and not result["saves"]["problems"] else 1)
