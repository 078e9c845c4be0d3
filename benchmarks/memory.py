"""Peak memory of training and evaluating on a little data and on much: for running text it must not grow.

    python benchmarks/memory.py [--text 20 400] [--table 20 100]      sizes in MB; about twenty minutes on two cores

Each command runs in a process of its own, with a cache of its own.  The texts are made up, and their vocabulary grows
with their length (``tests/faults/growing_text.py``).  "resident" is what the system counts for the process at its peak,
libraries included; "anonymous" leaves out pages of files.  Writes benchmarks/results/memory.json; fails where the text
of the last size needs over a tenth more than that of the first.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import facts, write

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "faults"))
from growing_text import peak, write_table, write_text

MODEL = ["--d-model", "16", "--layers", "1", "--heads", "2", "--length", "64", "--batch-tokens", "1024"]
TRAIN = [*MODEL, "--vocab", "1024", "--steps", "30", "--evaluations", "1", "--threads", "1", "--precision", "float32"]
MOST = 1.1


def grown(sizes: list[int], make: Callable[[Path, int], None], ending: str) -> dict[str, Any]:
    """The peaks for each size in MB, and the ratio of the last to the first."""
    found: dict[str, Any] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            data, run = folder / f"data{ending}", folder / "run"
            make(data, size * 1_000_000)
            found[f"{size} MB"] = {
                "train": peak(["train", data, "--out", run, *TRAIN], folder / "cache"),
                "evaluate": peak(["evaluate", run, "--threads", "1"], folder / "cache"),
            }
            print(size, "MB:", found[f"{size} MB"], flush=True)
    first, last = found[f"{sizes[0]} MB"], found[f"{sizes[-1]} MB"]
    ratios = {verb: {kind: last[verb][kind] / first[verb][kind] for kind in ("resident", "anonymous")} for verb in last}
    return {**found, "ratio": ratios}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=int, nargs="+", default=[20, 400])
    parser.add_argument("--table", type=int, nargs="*", default=[20, 100])
    given = parser.parse_args()
    result = {**facts(), "options": TRAIN, "running_text": grown(given.text, write_text, ".txt")}
    if given.table:
        result["table"] = grown(given.table, write_table, ".csv")
    write("memory", result)
    sys.exit(any(kinds["resident"] > MOST for kinds in result["running_text"]["ratio"].values()))
