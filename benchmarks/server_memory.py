"""A server's memory under requests of mixed lengths: benchmarks/results/server-memory.json.

    python benchmarks/server_memory.py MODEL [--minutes 20]

MODEL, a sentence encoder, is served alone; then beside six tiny models of other tasks.  After one answer of each class
of length from each model its memory is noted; then clients send texts of 1 to 500 words, in lists of 1 to 32.  From the
middle of the time to its end the memory may grow by 3 %, and be at most 1.5 times what was noted.  The exit status is 1
unless it does.
"""

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
from machine import facts, write

sys.path += [str(Path(__file__).resolve().parent.parent / "tests" / name) for name in ("serving", "doors")]
from served_models import Server, write_models

WORDS = ("the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran")
CLASSES = (1, 4, 16, 64, 250, 500)
"""Words of a text."""
ROUTES = {"text": "/generate", "chat": "/generate", "labels": "/classify", "fill": "/fill", "marian": "/translate"}
"""By model; of the others /embed."""
CLIENTS, EVERY = 4, 1.0
GROWTH, MOST = 1.03, 1.5


def resident(server: Server) -> int:
    """Bytes of memory that the server's process has."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def body(model: str, words: int, count: int, choose: random.Random) -> dict[str, Any]:
    """A request of so many texts, of so many words at most."""
    texts = [" ".join(choose.choices(WORDS, k=words)) for _ in range(count)]
    if model == "fill":
        texts = [f"[MASK] {text}" for text in texts]
    more = {"max_tokens": 8} if ROUTES.get(model) == "/generate" else {}
    return {"model": model, "inputs": texts, **more}


def loaded(models: dict[str, Path], minutes: float) -> dict[str, Any]:
    """The memory of a server with these models: after an answer of each class, and under load."""
    server = Server(*models.values(), "--quiet")
    end, memory, answered = 0.0, [], [0, 0]

    def client(number: int) -> None:
        choose = random.Random(number)
        with httpx.Client(base_url=server.address, timeout=600) as http:
            while time.monotonic() < end:
                model = choose.choice(list(models))
                words, count = round(2 ** choose.uniform(0, 9)), choose.choice((1, 1, 4, 32))
                found = http.post(ROUTES.get(model, "/embed"), json=body(model, words, count, choose))
                answered[found.status_code != 200] += 1

    try:
        for model in models:
            for words in CLASSES:
                server.post(ROUTES.get(model, "/embed"), body(model, words, 1, random.Random(0)))
        first, began = resident(server), time.monotonic()
        end = began + 60 * minutes
        clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for one in clients:
            one.start()
        while time.monotonic() < end:
            time.sleep(EVERY)
            memory.append(resident(server))
        for one in clients:
            one.join()
    finally:
        server.stop()
    half, sixth = memory[len(memory) // 2 :], max(1, len(memory) // 12)
    growth = statistics.median(half[-sixth:]) / statistics.median(half[:sixth])
    times = max(half) / first
    return {
        **{"models": list(models), "answered": answered[0], "refused": answered[1], "first_bytes": first},
        **{"every_seconds": EVERY, "bytes": memory, "growth": growth, "times_first": times},
        "passed": growth <= GROWTH and times <= MOST,
    }


def main() -> None:
    """The one model, all of them, and the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--minutes", type=float, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headway-memory-") as name:
        others = {key: path for key, path in write_models(Path(name)).items() if key != "pictures"}
        one = {given.model.name: given.model}
        rows = [loaded(models, given.minutes) for models in (one, {**one, **others})]
    write("server-memory", {**facts(), "clients": CLIENTS, "minutes": given.minutes, "rows": rows})
    for row in rows:
        print({key: value for key, value in row.items() if key != "bytes"})
    sys.exit(not all(row["passed"] for row in rows))


if __name__ == "__main__":
    main()
