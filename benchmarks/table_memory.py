"""The most memory that a classifier's training takes on large tables: 20 steps from scratch on 20 MB and on 60 MB.

    python benchmarks/table_memory.py FOLDER

Tables are made in FOLDER from seeds: rows of 110 characters, about as many as tweets have, and of ten times that; the
words are invented, and as frequent as 1 / rank.  The peak is the greatest resident size of the process (VmHWM).
"""

import random
import subprocess
import sys
from pathlib import Path

from machine import facts, write

SIZES = (20_000_000, 60_000_000)
ROWS = {"short rows": 110, "long rows": 1_100}
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


def main() -> None:
    """Each table in a process of its own."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for what, characters in ROWS.items():
        for size in SIZES:
            path = folder / f"{size // 1_000_000}mb-{characters}.csv"
            rows = table(path, size, characters)
            command = [sys.executable, "-c", CHILD, "train", str(path), "--steps", "20", "--quiet"]
            ended = subprocess.run([*command, "--out", str(path.with_suffix(""))], capture_output=True, text=True)
            ended.check_returncode()
            peak = next(int(line.split()[1]) * 1024 for line in ended.stderr.splitlines() if line.startswith("peak "))
            results.append({"what": what, "bytes": path.stat().st_size, "rows": rows, "peak_bytes": peak})
            print(results[-1], flush=True)
            write("table-memory", {**facts(), "runs": results})


if __name__ == "__main__":
    main()
