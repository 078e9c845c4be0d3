"""Text of any size whose vocabulary grows with its length, and the memory that a command needs at its peak."""

import os
import re
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path

import numpy as np

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
WORDS_AT_ONCE = 12_000
RUN = "from headway.cli.main import main; main()"


def write_text(path: Path, size: int, seed: int = 7) -> None:
    """Lines of twelve words, ``size`` bytes or a little more.

    A word's rank is 5 (U^(-1/0.65) - 1): n words have about 3 n^0.65 distinct ones, twenty megabytes 41,000 of them.
    """
    random = np.random.default_rng(seed)
    with path.open("w", encoding="ascii") as file:
        written = 0
        while written < size:
            words = _words(random, WORDS_AT_ONCE)
            lines = [" ".join(words[start : start + 12]) for start in range(0, len(words), 12)]
            written += file.write("\n".join(lines) + "\n")


def write_table(path: Path, size: int, seed: int = 7) -> None:
    """Rows of twelve such words and one of two labels, which one of the words tells."""
    random = np.random.default_rng(seed)
    with path.open("w", encoding="ascii") as file:
        written = file.write("text,label\n")
        while written < size:
            words, good = _words(random, WORDS_AT_ONCE), random.random(WORDS_AT_ONCE // 12) < 0.5
            for i, start in enumerate(range(0, len(words), 12)):
                told, label = ("good", "pos") if good[i] else ("bad", "neg")
                written += file.write(f"{told} {' '.join(words[start : start + 12])},{label}\n")


def _words(random: np.random.Generator, count: int) -> list[str]:
    ranks = np.minimum(5 * ((1 - random.random(count)) ** (-1 / 0.65) - 1), 2.0**40).astype(np.int64)
    return [_spelled(rank) for rank in ranks.tolist()]


@lru_cache(100_000)
def _spelled(rank: int) -> str:
    """A word for each rank, the shorter the more frequent."""
    word = SYLLABLES[rank % 60]
    while rank := rank // 60:
        word += SYLLABLES[rank % 60]
    return word


def peak(words: list[object], cache: Path, before: str = "") -> dict[str, float]:
    """Run ``headway`` in a process of its own, ``before`` first: its peaks in bytes, resident and anonymous; seconds.

    The anonymous part leaves out pages of files, such as those of libraries.  Linux alone.
    """
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", f"{before}\n{RUN}", *map(str, words), "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "HEADWAY_CACHE": str(cache)},
    )
    most = {"VmHWM": 0, "RssAnon": 0}
    while process.poll() is None:
        for name, kilobytes in re.findall(r"(VmHWM|RssAnon):\s+(\d+) kB", _status(process.pid)):
            most[name] = max(most[name], int(kilobytes) * 1024)
        time.sleep(0.01)
    error = process.stderr.read().decode() if process.stderr is not None else ""
    if process.returncode:
        raise RuntimeError(f"status {process.returncode}: {error}")
    return {"resident": most["VmHWM"], "anonymous": most["RssAnon"], "seconds": time.monotonic() - began}


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
