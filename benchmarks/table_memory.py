"""The most memory that a classifier takes on large tables: training, measuring, and answering for every row.

    python benchmarks/table_memory.py FOLDER [MEGABYTES ...]

Tables are made in FOLDER from seeds: rows of 200 characters; the words are invented, and as frequent as 1 / rank.  The
base has two layers, 64 wide.  The peak is the greatest resident size of the process (VmHWM).
"""

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from machine import facts, write

SIZES = (20, 60, 200)
CHARACTERS = 200
CHILD = """
import sys
from pathlib import Path
from headway.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("peak", *Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[:1], file=sys.stderr)
"""


def table(path: Path, size: int, characters: int) -> int:
    """Write rows of a text and one of five labels until there are ``size`` bytes; how many rows there are."""
    draw, rows, written = random.Random(7), 0, 0
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(30_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    with path.open("w", encoding="utf-8") as file:
        written += file.write("text,label\n")
        while written < size:
            text = " ".join(draw.choices(words, weights, k=3_000))
            for at in range(0, len(text) - characters, characters):
                written += file.write(f"{text[at : at + characters]},class{draw.randrange(5)}\n")
                rows += 1
    return rows


def peak_of(*words: str | Path) -> dict[str, Any]:
    """The peak of a command in bytes, and how many seconds it took."""
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", CHILD, *map(str, words)], capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    peak = next(int(line.split()[1]) * 1024 for line in ended.stderr.splitlines() if line.startswith("peak "))
    return {"peak_bytes": peak, "seconds": time.monotonic() - began}


def main() -> None:
    """Each verb on each table in a process of its own."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    base, small = folder / "base", folder / "small.csv"
    if not (base / "config.json").exists():
        table(small, 1_000_000, CHARACTERS)
        model = ("--d-model", "64", "--layers", "2", "--heads", "2", "--tokenizer", "wordpiece", "--length", "128")
        peak_of("train", small, "--steps", "2", "--quiet", *model, "--out", base)
    results = []
    for size in map(int, sys.argv[2:] or SIZES):
        path = folder / f"{size}mb.csv"
        rows = table(path, size * 1_000_000, CHARACTERS)
        run, answers = path.with_suffix(""), folder / f"{size}mb-answers.csv"
        verbs = {
            "train": ("train", path, "--from", base, "--steps", "50", "--evaluations", "1", "--out", run, "--quiet"),
            "evaluate": ("evaluate", run),
            "classify": ("classify", run, path, "--to", answers, "--quiet"),
        }
        for verb, words in verbs.items():
            results.append({"verb": verb, "bytes": path.stat().st_size, "rows": rows, **peak_of(*words)})
            print(results[-1], flush=True)
            write("table-memory", {**facts(), "runs": results})


if __name__ == "__main__":
    main()
