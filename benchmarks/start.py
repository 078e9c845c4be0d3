"""How soon a model of 124 M parameters answers in a new process, and what loading it takes in memory.

    python benchmarks/start.py MODELS [--rounds 5]

MODELS is the folder of `inference.py`.  In each process: torch is imported, then the clock starts; Headway is imported,
the model is loaded and continues a prompt by one token, which is its answer.  Memory is the peak of the process over
what it had after the libraries were imported: of loading, and until a second token is there, for which int8 lays the
layers out a second time.  The precisions take turns.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from inference_models import gpt2
from machine import RESULTS, facts, spread, write

PRECISIONS = {"float32": 4, "bfloat16": 2, "int8": 1}
CODE = """
import json, resource, sys, time
import torch
began = time.perf_counter()
import headway
from headway.generation.sampling import Sampling
import headway.workflows.load, headway.tasks.language_modeling.pipeline
def peak(): return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def held(): return 4096 * int(open("/proc/self/statm").read().split()[1])
before = held()
pipe = headway.load(sys.argv[1], "language_modeling", device="cpu", precision=sys.argv[2])
loaded, most = time.perf_counter() - began, peak()
steps = iter(pipe.runtime.write([list(range(1, 33))], Sampling(temperature=0.0), max_tokens=2))
next(steps)
answered = time.perf_counter() - began
next(steps)
numbers = sum({p.data_ptr(): p.numel() for p in pipe.model.parameters()}.values())
found = {"answer": answered, "loaded": loaded, "memory": most - before, "memory_two_tokens": peak() - before}
found["parameters"] = numbers
print(json.dumps(found))
"""


def once(directory: Path, precision: str) -> dict[str, float]:
    """What a new process measures."""
    words = [sys.executable, "-c", CODE, str(directory), precision]
    found: dict[str, float] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    """All precisions in turn."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    given = parser.parse_args()
    directory = gpt2(given.models)
    once(directory, "float32")  # reads the files once
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in PRECISIONS}
    for _ in range(given.rounds):
        for name, found in runs.items():
            found.append(once(directory, name))
    parameters = runs["float32"][0]["parameters"]
    result: dict[str, Any] = {"parameters": parameters, "precisions": {}}
    for name, found in runs.items():
        row = {key: spread([one[key] for one in found]) for key in ("answer", "loaded", "memory", "memory_two_tokens")}
        result["precisions"][name] = row | {"weights": parameters * PRECISIONS[name]}
        allowed = 1.1 * parameters * PRECISIONS[name] + 200e6
        print(
            f"{name}: answers {row['answer']['median']:.2f} s after torch's import, loading takes "
            f"{row['memory']['median'] / 1e6:.0f} MB (1.1 times the weights and 200 MB: {allowed / 1e6:.0f}), "
            f"two tokens {row['memory_two_tokens']['median'] / 1e6:.0f} MB"
        )
    write("start", {**facts(), **result}, given.out)


if __name__ == "__main__":
    main()
