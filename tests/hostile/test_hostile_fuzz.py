"""What is damaged at random is refused, or does what it means; ``make fuzz`` goes on for longer."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = {
    "fuzz": (12, "refused", "loaded"),
    "fuzz_runs": (10, "refused", "the same"),
    "fuzz_tables": (8, "refused", "read"),
    "fuzz_tokenizers": (12, "refused", "loaded"),
    "fuzz_requests": (10, "refused", "answered"),
}
"""Each script: its seconds, and what happens in it."""


@pytest.mark.parametrize("script", SCRIPTS)
def test_damage_is_refused_or_means_what_it_says(script):
    """A process of its own: its children are forked from one that has computed nothing."""
    seconds, *words = SCRIPTS[script]
    path = Path(__file__).with_name(f"{script}.py")
    done = subprocess.run([sys.executable, str(path), str(seconds), "0"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert all(f"'{word}'" in done.stdout for word in words), done.stdout
