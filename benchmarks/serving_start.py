"""How soon a server is ready, next to what importing its libraries takes: benchmarks/results/serving-start.json.

    python benchmarks/serving_start.py [MODEL] [--rounds 7]

MODEL is a run of a language model; without it one of random weights is made (10 M parameters).  Two processes take
turns, both timed from their start: one that imports torch, fastapi and uvicorn and ends, and `headway serve`, until
/ready answers 200.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from http_load import Serving, ask
from machine import RESULTS, facts, installed, spread, write
from soak import made

IMPORTS = "import torch, fastapi, uvicorn"


def imports() -> float:
    """Seconds of a process that only imports."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True, env=dict(os.environ))
    return time.perf_counter() - began


def ready(path: Path) -> float:
    """Seconds from the start of a server until it says that it can answer."""
    began = time.perf_counter()
    server = Serving(path)
    try:
        while asyncio.run(ask(server.port, "/ready")).status != 200:
            time.sleep(0.01)
        return time.perf_counter() - began
    finally:
        server.stop(signal.SIGTERM)


def main() -> None:
    """Both in turn."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.model or made(Path(folder), 384, 6)
        imports(), ready(path)  # files are read from the disk once
        rounds = [(imports(), ready(path)) for _ in range(given.rounds)]
    result = {
        **facts(),
        "libraries": installed(["fastapi", "uvicorn"]),
        "seconds_to_import": spread([one for one, _ in rounds]),
        "seconds_to_ready": spread([one for _, one in rounds]),
        "seconds_more": spread([two - one for one, two in rounds]),
    }
    print(write("serving-start", result, given.out))


if __name__ == "__main__":
    main()
