"""Texts a second that a server classifies: benchmarks/results/serving-classify.json.

    python benchmarks/serving_classify.py MODELS DATA [--seconds 15] [--rounds 3]

The model is that of `inference.py`: MiniLM (22 M parameters) with two classes, in float32; the texts are tweets of
DATA.  Five ways take turns: the pipeline in this process with 32 texts at a time; `headway serve` asked by one client
and by 16 for a text each, and by four for 64 texts each; and the pipeline of `transformers` behind FastAPI, asked by 16
clients for a text each.  Every client asks again as soon as it has its answer.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from http_load import Serving, closed_loop, quantile
from inference import tweets
from inference_models import classifier
from machine import RESULTS, facts, installed, spread, write
from serving import other_server

CROWDS = {"one_client": (1, 1), "16_clients": (16, 1), "4_clients_64_texts_each": (4, 64)}
"""Clients, and texts of a request."""
WRAPPER = """
import sys
import torch, uvicorn
from fastapi import FastAPI
from transformers import pipeline
torch.set_num_threads(int(sys.argv[3]))
classify, app = pipeline("text-classification", sys.argv[1], top_k=None), FastAPI()

@app.post("/classify")
def answer(body: dict):
    return {"answers": classify(body["inputs"])}

@app.get("/health")
def health():
    return {}

uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""


def bare(path: Path, texts: list[str], seconds: float) -> dict[str, float]:
    """The pipeline in this process."""
    import headway

    pipe: Any = headway.load(path)
    pipe(texts[:32])
    began, count = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds:
        at = count % (len(texts) - 32)
        count += len(pipe(texts[at : at + 32]))
    return {"texts_per_second": count / took}


def crowd(port: int, texts: list[str], clients: int, at_once: int, seconds: float) -> dict[str, float]:
    """What clients of a server get."""

    def body(choose: random.Random) -> dict[str, Any]:
        return {"inputs": choose.sample(texts, at_once)}

    used = time.process_time()
    began = time.perf_counter()
    found = asyncio.run(closed_loop(port, clients, seconds, body, "/classify"))
    took = time.perf_counter() - began
    assert all(one.status == 200 for one in found), {one.status for one in found}
    times = [one.seconds for one in found]
    return {
        "texts_per_second": len(found) * at_once / took,
        "seconds_of_a_request": quantile(times, 0.5),
        "seconds_of_a_request_p99": quantile(times, 0.99),
        "load_generator_share_of_a_processor": (time.process_time() - used) / took,
    }


def main() -> None:
    """All ways in turn."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    path, texts = classifier(given.models), tweets(given.data)
    runs: dict[str, list[dict[str, float]]] = {}

    def keep(name: str, found: dict[str, float]) -> None:
        runs.setdefault(name, []).append(found)
        print(name, {key: round(value, 4) for key, value in found.items()}, flush=True)

    for _ in range(given.rounds):
        keep("bare_pipeline", bare(path, texts, given.seconds))
        server = Serving(path, "--threads", given.threads)
        try:
            for name, (clients, at_once) in CROWDS.items():
                crowd(server.port, texts, clients, at_once, 2.0)
                keep(name, crowd(server.port, texts, clients, at_once, given.seconds))
        finally:
            server.stop(signal.SIGTERM)
        command = [sys.executable, "-c", WRAPPER, str(path), "PORT", str(given.threads)]
        with other_server(command, given.threads) as port:
            crowd(port, texts, 16, 1, 2.0)
            keep("fastapi_and_transformers_16_clients", crowd(port, texts, 16, 1, given.seconds))
    result = {
        **facts(),
        "libraries": installed(["transformers", "fastapi", "uvicorn"]),
        "threads": given.threads,
        "texts_per_second": {name: spread([one["texts_per_second"] for one in found]) for name, found in runs.items()},
        "runs": runs,
    }
    print(write("serving-classify", result, given.out))


if __name__ == "__main__":
    main()
