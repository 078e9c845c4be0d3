"""Model directories damaged at random load or are refused; ``make fuzz`` goes on for longer."""

import subprocess
import sys
import time
from pathlib import Path

import fuzz


def test_random_damage_is_refused(tmp_path):
    until = time.monotonic() + 15
    counts, wrong = fuzz.run(0, lambda done: done < 1500 and time.monotonic() < until, tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    assert counts["refused"] > 100 and counts["loaded"] > 10


def test_damaged_runs_are_refused_or_answer_the_same():
    """A process of its own: its children are forked from one that has computed nothing."""
    script = Path(__file__).with_name("fuzz_runs.py")
    done = subprocess.run([sys.executable, str(script), "10", "0"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "refused" in done.stdout and "the same" in done.stdout
