"""A server under four times its load, left by its clients, and told to stop: benchmarks/results/soak.json.

    python benchmarks/soak.py [MODEL] [--seconds 1800] [--prompts 1000] [--leave 200]

MODEL is a run of a language model; without it one of random weights is made (10 M parameters).  What must hold is
checked, and the program fails where it does not: every request at four times the capacity is answered or refused with
429, none hangs, memory does not grow, /health answers within 0.1 s (the 99th percentile), slots are free within a
second after clients have left, streamed text equals plain text, and SIGTERM ends with status 0.

A client that was refused waits as long as the server asks (Retry-After), as OpenAI's client does.  What others cost,
who ask again after 0.1 to 0.3 seconds, is reported as "impatient".
"""

import argparse
import asyncio
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from http_load import Answer, Serving, ask, closed_loop, number, quantile
from machine import RESULTS, facts, write

PIECES = ["🙂", "日本", "ภาษาไทย", "é", "👩‍👩‍👧", " the", " cat", "\n", "x", "\u2028", "ﬀ", "a\u0301", "🇩🇪"]
PATH = "/v1/completions"
TOKENS = "headway_completion_tokens_total"
HEALTH_SECONDS, LEAVE_SECONDS = 0.1, 1.0


def made(folder: Path, width: int, layers: int) -> Path:
    """A language model of bytes with random weights."""
    import torch

    from headway.hub.directory import save_model
    from headway.models.config import TransformerConfig
    from headway.models.transformer import Decoder
    from headway.text.train import train_tokenizer

    tokenizer = train_tokenizer(["".join(PIECES) * 9] * 9, "bpe", 320)
    torch.manual_seed(5)
    heads = max(1, width // 32)
    model = Decoder(
        TransformerConfig(tokenizer.vocab_size, d_model=width, n_layers=layers, n_heads=heads, max_length=512)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(
                torch.randn(parameter.shape) * (0.3 if parameter.dim() < 2 else parameter.shape[-1] ** -0.5)
            )
    save_model(model, folder / "made", eos_token_id=tokenizer.end_of_text)
    tokenizer.save(folder / "made")
    return folder / "made"


async def load(server: Serving, model: str, *, running: int, queue: int, seconds: float) -> dict[str, Any]:
    """Four times as many clients as there are places, beside one that asks for /health and one that looks at memory."""
    body = {"model": model, "prompt": "the cat", "max_tokens": 32, "temperature": 1.0, "stream": True}
    short = min(60.0, seconds)
    capacity, at_capacity = await pace(server, closed_loop(server.port, running, short, body, PATH), short)
    health: list[float] = []
    memory: list[tuple[float, int]] = []
    over = False

    async def look() -> None:
        began = time.monotonic()
        while not over:
            health.append((await ask(server.port, "/health")).seconds)
            memory.append((time.monotonic() - began, server.memory))
            await asyncio.sleep(0.1)

    used = time.process_time()
    looking = asyncio.create_task(look())
    clients = 4 * (running + queue)
    found, at_four_times = await pace(server, closed_loop(server.port, clients, seconds, body, PATH), seconds)
    over = True
    await looking
    share = (time.process_time() - used) / seconds
    hasty = closed_loop(server.port, clients, short, body, PATH, patient=False)
    pressed, at_pressure = await pace(server, hasty, short)
    accepted = [one.seconds for one in found if one.status == 200]
    return {
        "clients": clients,
        "requests": len(found),
        "answered": len(accepted),
        "refused": sum(one.status == 429 for one in found),
        "tokens_per_second_at_capacity": at_capacity,
        "tokens_per_second_at_four_times": at_four_times,
        "seconds_of_accepted_p99": quantile(accepted, 0.99),
        "health_seconds_p99": quantile(health, 0.99),
        "health_seconds_most": max(health),
        "memory_bytes_per_minute": slope(memory),
        "memory_bytes": memory[-1][1],
        "load_generator_share_of_a_processor": share,
        "answers_of_capacity": sum(one.status == 200 for one in capacity) / max(1, len(capacity)),
        "impatient": {
            "requests": len(pressed),
            "lost": sum(one.status not in (200, 429) for one in pressed),
            "refused_per_second": sum(one.status == 429 for one in pressed) / short,
            "tokens_per_second": at_pressure,
        },
    }


async def pace(server: Serving, clients: Any, seconds: float) -> tuple[list[Answer], float]:
    """What some clients get, and the tokens a second of their first ``seconds``: the last ones finish after that."""
    before = await number(server.port, TOKENS)
    asking = asyncio.create_task(clients)
    await asyncio.sleep(seconds)
    after = await number(server.port, TOKENS)
    return await asking, (after - before) / seconds


def slope(memory: list[tuple[float, int]]) -> float:
    """Bytes a minute, over the second half, in which everything has been used once."""
    half = memory[len(memory) // 2 :]
    if len(half) < 2:
        return 0.0
    times, sizes = [at for at, _ in half], [float(size) for _, size in half]
    return 60 * statistics.linear_regression(times, sizes).slope


async def leave(server: Serving, model: str, count: int) -> dict[str, Any]:
    """Clients that leave at random: while they wait, while their prompt is read, while they are answered."""
    choose = random.Random(3)

    async def one(seed: int) -> Answer:
        body = {
            "model": model,
            "prompt": "a" * choose.choice([1, 100, 300]),
            "max_tokens": 100,
            "stream": seed % 2 == 0,
        }
        return await ask(server.port, PATH, body, leave_after=choose.uniform(0.0, 1.0))

    await asyncio.gather(*(one(seed) for seed in range(count)))
    began = time.monotonic()
    while await number(server.port, "headway_running") + await number(server.port, "headway_queued"):
        assert time.monotonic() - began < 30, "slots are not given back"
        await asyncio.sleep(0.02)
    return {"clients": count, "seconds_until_free": time.monotonic() - began}


async def equal_texts(server: Serving, model: str, count: int) -> dict[str, Any]:
    """Random Unicode prompts: the streamed text and the plain one."""
    equal = 0
    for seed in range(count):
        choose = random.Random(seed)
        prompt = "".join(choose.choices(PIECES, k=choose.randint(1, 12)))
        body = {"model": model, "prompt": prompt, "max_tokens": 24, "seed": seed, "temperature": 1.0}
        plain, streamed = await asyncio.gather(
            ask(server.port, PATH, body), ask(server.port, PATH, {**body, "stream": True})
        )
        equal += plain.status == streamed.status == 200 and plain.text == streamed.text
    return {"prompts": count, "equal": equal}


async def slow_readers(server: Serving, model: str, count: int) -> dict[str, Any]:
    """Clients that read ten bytes a second do not keep others from their answers."""
    body = {"model": model, "prompt": "a", "max_tokens": 100, "stream": True}
    slow = [asyncio.create_task(ask(server.port, PATH, body, pause=1.0)) for _ in range(count)]
    await asyncio.sleep(0.5)
    answer = Answer()
    while answer.status != 200:
        answer = await ask(server.port, PATH, {**body, "stream": False, "max_tokens": 5})
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    return {"slow_readers": count, "seconds_of_another": answer.seconds}


async def stopped(server: Serving, model: str, clients: int) -> dict[str, Any]:
    """SIGTERM under load."""
    body = {"model": model, "prompt": "the cat", "max_tokens": 32, "stream": True}
    tasks = [asyncio.create_task(ask(server.port, PATH, body)) for _ in range(clients)]
    await asyncio.sleep(0.3)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    status = await asyncio.to_thread(server.process.wait, 60)
    whole = sum(isinstance(one, Answer) and one.status == 200 and one.body.endswith(b"[DONE]\n\n") for one in found)
    refused = sum(isinstance(one, Answer) and one.status in (429, 503) for one in found)
    about = {"clients": clients, "finished": whole, "refused": refused, "lost": clients - whole - refused}
    return {**about, "status": status, "seconds": time.monotonic() - began}


def soak(given: argparse.Namespace) -> dict[str, Any]:
    """Everything, with one server; raises AssertionError where what must hold does not."""
    with tempfile.TemporaryDirectory() as folder:
        path = given.model or made(Path(folder), given.width, given.layers)
        words = ["--running", given.running, "--queue", given.queue, "--threads", given.threads]
        server, model = Serving(path, *words), Path(path).resolve().name
        try:
            places = {"running": given.running, "queue": given.queue}
            found: dict[str, Any] = {**places, "seconds": given.seconds}
            found["texts"] = asyncio.run(equal_texts(server, model, given.prompts))
            found["load"] = asyncio.run(load(server, model, seconds=given.seconds, **places))
            found["leave"] = asyncio.run(leave(server, model, given.leave))
            found["slow"] = asyncio.run(slow_readers(server, model, given.running))
            found["stop"] = asyncio.run(stopped(server, model, 2 * given.running))
        finally:
            if server.process.poll() is None:
                server.process.kill()
    return found


def check(found: dict[str, Any], minutes: float) -> None:
    """What must hold; memory only where the run was long enough to say."""
    load, stop = found["load"], found["stop"]
    assert load["answered"] + load["refused"] == load["requests"] and load["answered"] and load["refused"], load
    assert not load["impatient"]["lost"], load
    assert load["health_seconds_p99"] < HEALTH_SECONDS, load
    assert load["tokens_per_second_at_four_times"] >= 0.95 * load["tokens_per_second_at_capacity"] or minutes < 5, load
    assert load["memory_bytes_per_minute"] < 1 << 20 or minutes < 5, load
    assert found["leave"]["seconds_until_free"] <= LEAVE_SECONDS, found["leave"]
    assert found["texts"]["equal"] == found["texts"]["prompts"], found["texts"]
    assert stop["status"] == 0 and not stop["lost"], stop


def options(words: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--leave", type=int, default=200)
    parser.add_argument("--running", type=int, default=16)
    parser.add_argument("--queue", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    return parser.parse_args(words)


def main() -> None:
    """Soak, write the results, and check them."""
    given = options()
    found = soak(given)
    write("soak", {**facts(), **found}, given.out)
    check(found, given.seconds / 60)


if __name__ == "__main__":
    main()
