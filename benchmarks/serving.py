"""What a server adds to the model: tokens a second of clients over HTTP, next to those of the bare runtime.

    python benchmarks/serving.py MODELS [--clients 16] [--tokens 64] [--rounds 3] [--llama PYTHON]

MODELS is the folder of `inference.py`, which holds a model of 124 M parameters.  Each client asks for a streamed text,
greedy, and asks again when it has it.  Six ways take turns, on the same weights in float32: the bare runtime
(continuous batching in this process, without HTTP), `headway serve`, `transformers serve` without and with its
continuous batching, `generate` of `transformers` behind FastAPI, one request at a time, as such servers are usually
written, and the server of llama-cpp-python with the same weights as GGUF (F32), which PYTHON has if this one has not.
The share of a processor that the clients themselves take is reported.  Writes benchmarks/results/serving.json.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from http_load import Serving, ask, closed_loop
from inference_models import gguf_file, gpt2
from machine import RESULTS, facts, installed, spread, write

PROMPT = "The history of the city begins with"
PATH = "/v1/completions"
WRAPPER = """
import json, sys, threading
import torch, uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer
torch.set_num_threads(int(sys.argv[3]))
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
app, lock = FastAPI(), threading.Lock()

@app.post("/v1/completions")
def completions(body: dict):
    ids = tokenizer(body["prompt"], return_tensors="pt")
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True)
    how = {"max_new_tokens": body["max_tokens"], "min_new_tokens": body["max_tokens"], "do_sample": False}
    def work():
        with lock:
            model.generate(**ids, streamer=streamer, pad_token_id=0, **how)
    threading.Thread(target=work).start()
    events = (f"data: {json.dumps({'choices': [{'text': text}]})}\\n\\n" for text in streamer)
    return StreamingResponse(events, media_type="text/event-stream")

@app.get("/health")
def health():
    return {}

uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""


def bare(path: Path, clients: int, tokens: int, seconds: float) -> float:
    """Tokens a second of the batcher with as many texts as clients, each followed by another."""
    import headway
    from headway.generation.sampling import Sampling
    from headway.runtime.batcher import Batcher

    pipe: Any = headway.load(path, "language_modeling", device="cpu")
    prompt, batcher, count = pipe.prompt(PROMPT), Batcher(pipe.model, slots=clients), 0

    def more() -> None:
        how: dict[str, Any] = {"ends": (), "forbidden": [*prompt.forbidden, *prompt.ends]}
        batcher.submit(prompt.ids, Sampling(temperature=0.0), max_tokens=tokens, **how)

    for _ in range(clients):
        more()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for request, token in batcher.step():
            count += token is not None
            if request.over:
                more()
    return count / (time.perf_counter() - began)


async def clients_of(port: int, model: str, given: argparse.Namespace) -> dict[str, float]:
    """What clients of a server get: whole answers times their tokens, and what the clients themselves took."""
    body = {"model": model, "prompt": PROMPT, "max_tokens": given.tokens, "temperature": 0, "stream": True}
    for one in await closed_loop(port, 1, 1.0, body, PATH):
        if one.status != 200:
            raise RuntimeError(f"it answers {one.status}: {one.body[:200]!r}")
    used, began = time.process_time(), time.perf_counter()
    found = await closed_loop(port, given.clients, given.seconds, body, PATH)
    seconds = time.perf_counter() - began
    assert all(one.status == 200 for one in found), {one.status for one in found}
    assert not any(b'"stop"' in one.body for one in found), "a text ended before it had all its tokens"
    first = [one.first for one in found if one.first is not None]
    return {
        "seconds": seconds,
        "tokens_per_second": len(found) * given.tokens / seconds,
        "seconds_to_first_token": sorted(first)[len(first) // 2],
        "load_generator_share_of_a_processor": (time.process_time() - used) / seconds,
    }


def ours(path: Path, given: argparse.Namespace) -> dict[str, float]:
    """`headway serve`."""
    server = Serving(path, "--running", given.clients, "--threads", given.threads)
    try:
        return asyncio.run(clients_of(server.port, path.name, given))
    finally:
        server.stop(signal.SIGTERM)


def others(path: Path, given: argparse.Namespace) -> dict[str, list[str]]:
    """The command of each other server; PORT in it is the port."""
    threads = str(given.threads)
    serve = ["-m", "transformers.cli.transformers", "serve", str(path), "--port", "PORT", "--device", "cpu"]
    context = str(given.clients * (given.tokens + 64))
    return {
        "fastapi_and_transformers": [sys.executable, "-c", WRAPPER, str(path), "PORT", threads],
        "transformers_serve": [sys.executable, *serve, "--dtype", "float32"],
        "transformers_serve_continuous_batching": [
            *(sys.executable, *serve, "--dtype", "float32", "--continuous-batching")
        ],
        "llama_cpp_server": [
            *(given.llama, "-m", "llama_cpp.server", "--model", str(gguf_file(path, given.models, "F32"))),
            *("--port", "PORT", "--n_threads", threads, "--n_threads_batch", threads, "--n_ctx", context),
            *("--interrupt_requests", "false"),
        ],
    }


@contextlib.contextmanager
def other_server(command: list[str], threads: int) -> Iterator[int]:
    """The port of another server, which is started and ended.  Raises RuntimeError where it does not start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    words = [str(port) if word == "PORT" else word for word in command]
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise RuntimeError(f"it ended with status {process.returncode}")
            try:
                asyncio.run(ask(port, "/health"))
                break
            except OSError:
                time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def other(command: list[str], path: Path, given: argparse.Namespace) -> dict[str, float]:
    """What clients get of another server."""
    with other_server(command, given.threads) as port:
        return asyncio.run(clients_of(port, str(path), given))


def main() -> None:
    """All ways in turn."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--llama", default=sys.executable, help="a Python that has llama-cpp-python[server]")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    path = gpt2(given.models)
    runtime: list[float] = []
    found: dict[str, list[dict[str, float]]] = {}
    missing: dict[str, str] = {}
    for _ in range(given.rounds):
        runtime.append(bare(path, given.clients, given.tokens, given.seconds))
        print(f"bare runtime: {runtime[-1]:.1f} tokens/s", flush=True)
        ways: dict[str, Callable[[], dict[str, float]]] = {"headway_serve": lambda: ours(path, given)}
        ways |= {name: (lambda words=words: other(words, path, given)) for name, words in others(path, given).items()}
        for name, way in ways.items():
            if name in missing:
                continue
            try:
                found.setdefault(name, []).append(way())
                print(f"{name}: {found[name][-1]}", flush=True)
            except (RuntimeError, AssertionError) as error:
                missing[name] = str(error)
                print(f"{name}: {error}", flush=True)
    rates = {"bare_runtime": spread(runtime)}
    rates |= {name: spread([one["tokens_per_second"] for one in runs]) for name, runs in found.items()}
    mine = rates["headway_serve"]["median"]
    result = {
        **facts(),
        "libraries": installed(["transformers", "fastapi", "uvicorn", "llama-cpp-python"]),
        **{"clients": given.clients, "tokens": given.tokens, "threads": given.threads},
        "tokens_per_second": rates,
        "times_of": {name: mine / one["median"] for name, one in rates.items() if name != "headway_serve"},
        **{"runs": found, "missing": missing},
    }
    print(write("serving", result, given.out))


if __name__ == "__main__":
    main()
