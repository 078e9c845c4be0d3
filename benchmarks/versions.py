"""Two versions of Headway in alternating pairs: the time of a whole process and its peak memory.

    python benchmarks/versions.py OLD NEW MODEL DATA [--pairs 15] [--cases train,help]

OLD and NEW are checkouts, MODEL is the folder of all-MiniLM-L6-v2, DATA the one that benchmarks read.  Each pair runs
both versions one after the other, and the order changes from pair to pair, so that a slow spell of the machine hits
both.  What takes more than a minute has five pairs.  A ratio is new over old; its interval of 95 % is the one of the
median of the paired ratios, by order statistics (of five pairs: the least and the greatest).  With --cases the results
of the others are kept.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from machine import RESULTS, facts, spread, write
from scipy.stats import binom

LONG, FEW = 60.0, 5
TIMED = """
import os, sys, time
said = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
began = time.perf_counter()
child = os.fork()
if not child:
    os.dup2(said, 1), os.dup2(said, 2)
    os.execv(sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), time.perf_counter() - began, used.ru_maxrss)
"""
"""A small program that times another: the peak of a process counts what its parent held when it began."""
STEPS = (
    "--threads",
    "2",
    "--evaluations",
    "1",
    "--precision",
    "float32",
    "--products",
    "torch",
    "--seed",
    "3",
    "--quiet",
)
SMALL = ("--d-model", "128", "--layers", "2", "--heads", "4", "--length", "128")
LOAD = "import headway, sys; headway.load(sys.argv[1])(['a bad flight', 'thank you'])"


def cases(folder: Path, model: Path, data: Path) -> dict[str, list[str]]:
    """What is timed: the words after ``python``."""
    rows, verb = str(data / "reviews" / "customer-train.csv"), ["-m", "headway"]
    out = ["--out", str(folder / "timed")]
    trained = [*verb, "train", str(data / "shakespeare.txt"), "--steps", "300", "--batch-tokens", "512", *SMALL]
    tuned = [*verb, "train", rows, "--from", str(model), "--steps", "20", "--batch-tokens", "1024", "--length", "48"]
    return {
        "train": [*trained, *STEPS, *out],
        "fine-tune": [*tuned, *STEPS, *out],
        "translate": [
            *verb,
            "translate",
            str(folder / "translator"),
            str(folder / "some.txt"),
            "--beam",
            "5",
            "--quiet",
        ],
        "load": ["-c", LOAD, str(folder / "classifier")],
        "import": ["-c", "import headway"],
        "help": [*verb, "--help"],
    }


def prepare(old: Path, folder: Path, data: Path) -> None:
    """The runs that are loaded, by the old version, and the sentences that are translated."""
    import gzip

    sides = []
    for side in ("de", "en"):
        lines = gzip.decompress((data / "multi30k" / f"train.{side}.gz").read_bytes()).decode().splitlines()
        sides.append(folder / f"train.{side}")
        sides[-1].write_text("\n".join(lines[:4000]) + "\n")
    (folder / "some.txt").write_text("\n".join(sides[0].read_text().splitlines()[:100]) + "\n")
    rows = str(data / "reviews" / "customer-train.csv")
    for words in ([*map(str, sides), "--out", str(folder / "translator")], [rows, "--out", str(folder / "classifier")]):
        run(old, ["-m", "headway", "train", *words, "--steps", "60", *SMALL, *STEPS], folder)


def run(version: Path, words: list[str], folder: Path) -> tuple[float, float]:
    """Seconds of a process, and its peak memory in bytes; its code is compiled once, as installed code is."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(version / "src"), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    subprocess.run(["rm", "-rf", str(folder / "timed")], check=True)
    command = [sys.executable, "-S", "-c", TIMED, str(folder / "said"), sys.executable, *words]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    status, seconds, peak = done.stdout.split()
    if int(status):
        raise SystemExit(f"{version}: {' '.join(words)}: {(folder / 'said').read_text()[-2000:]}")
    return float(seconds), 1024.0 * float(peak)


def interval(ratios: list[float]) -> list[float]:
    """The 95 % interval of the median, by order statistics."""
    ranked, count = sorted(ratios), len(ratios)
    lowest = max(0, int(binom.ppf(0.025, count, 0.5)) - 1)
    return [ranked[lowest], ranked[count - 1 - lowest]]


def measured(versions: dict[str, Path], words: list[str], folder: Path, pairs: int) -> dict[str, Any]:
    """The pairs of one case."""
    first = {name: run(version, words, folder)[0] for name, version in versions.items()}  # reads the files once
    count = FEW if max(first.values()) > LONG else pairs
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in versions}
    for pair in range(count):
        for name in list(versions)[:: 1 if pair % 2 else -1]:
            found[name].append(run(versions[name], words, folder))
    result: dict[str, Any] = {}
    for at, what in enumerate(("seconds", "peak_bytes")):
        values = {name: [each[at] for each in both] for name, both in found.items()}
        ratios = [new / old for old, new in zip(values["old"], values["new"], strict=True)]
        result[what] = {name: spread(each) for name, each in values.items()}
        result[what]["ratio"] = {"median": float(np.median(ratios)), "interval_95": interval(ratios), "pairs": ratios}
    return result


def main() -> None:
    """All cases, one after the other; the file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("old", "new", "model", "data"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--cases", default="")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    given = parser.parse_args()
    names = ("git", "-C")
    found = {"old": given.old.resolve(), "new": given.new.resolve()}
    heads = {
        name: subprocess.run([*names, str(path), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        for name, path in found.items()
    }
    file = given.out / "versions.json"
    results: dict[str, Any] = json.loads(file.read_text())["results"] if given.cases and file.exists() else {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prepare(found["old"], folder, given.data.resolve())
        for name, words in cases(folder, given.model.resolve(), given.data.resolve()).items():
            if given.cases and name not in given.cases.split(","):
                continue
            results[name] = {**measured(found, words, folder, given.pairs), "commits": heads}
            ratios = {what: results[name][what]["ratio"] for what in ("seconds", "peak_bytes")}
            print(
                name, {what: (round(one["median"], 3), one["interval_95"]) for what, one in ratios.items()}, flush=True
            )
            write("versions", {**facts(), "results": results}, given.out)


if __name__ == "__main__":
    main()
