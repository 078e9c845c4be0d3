"""What benchmarks share: facts of the machine, versions, running a verb, interleaved timing, results as files."""

import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from headway.io.atomic_write import write_json
from headway.io.memory import total_bytes
from headway.training.store.run_directory import clock, machine, versions

RESULTS = Path(__file__).resolve().parent / "results"
PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def facts() -> dict[str, Any]:
    """Command, date, machine and versions: what a result must say beside its numbers."""
    script = Path(sys.argv[0]).name
    words = [f"benchmarks/{script}", *(Path(word).name if "/" in word else word for word in sys.argv[1:])]
    found = {"processors": os.cpu_count(), "memory_bytes": total_bytes(), **machine()}
    return {"command": "python " + shlex.join(words), "date": clock(), "machine": found, "versions": versions()}


def headway(*words: str) -> dict[str, Any]:
    """Run a verb with --json in a new process; its object, and the seconds of the whole process as "wall"."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "headway", *words, "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {**json.loads(done.stdout.splitlines()[-1]), "wall": time.perf_counter() - start}


def spread(values: list[float]) -> dict[str, Any]:
    """Median, least and greatest of repeated measurements, and the measurements themselves."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "runs": values}


def installed(names: Iterable[str]) -> dict[str, str]:
    """The version of each library, or "not installed"."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def interleaved(calls: dict[Any, Callable[[], object]], runs: int, least: float = 0.0) -> dict[Any, list[float]]:
    """Seconds of each call, ``runs`` times: all of them in turn, then all again, so that a slow spell hits all alike.

    Each call is made once before, unmeasured, and within one measurement as often as ``least`` seconds take.
    """
    times: dict[Any, list[float]] = {name: [] for name in calls}
    repeats = {name: _repeats(call, least) for name, call in calls.items()}
    for _ in range(runs):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            _wait()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return times


def write(name: str, result: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write results/NAME.json, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", result)
    return folder / f"{name}.json"


def _repeats(call: Callable[[], object], least: float) -> int:
    call()
    start = time.perf_counter()
    call()
    _wait()
    return max(1, round(least / max(time.perf_counter() - start, 1e-9)))


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
