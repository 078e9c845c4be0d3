"""Clients of a server, as many as one wants, on plain sockets: what the soak test and the serving benchmark share."""

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Serving:
    """``headway serve`` in a process of its own, on a free port."""

    def __init__(self, *words: object):
        command = [sys.executable, "-m", "headway", "serve", *map(str, words), "--port", "0", "--quiet"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if found := re.search(r"open http://\S+:(\d+) in a browser", line):
                self.port = int(found[1])
                return
        raise SystemExit("".join(lines))

    @property
    def memory(self) -> int:
        """Bytes that the process holds."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self, number: int, seconds: float = 60) -> int:
        """Send a signal; returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(seconds)


@dataclass
class Answer:
    """What one request got."""

    status: int = 0
    seconds: float = 0.0
    first: float | None = None
    """seconds to the first event of a stream"""
    body: bytes = b""
    tokens: int = field(default=0)
    retry_after: float = 0.0
    """seconds after which the server wants to be asked again"""

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The text of a completion, whole or streamed."""
        if not self.body.startswith((b"data:", b":")):
            return str(self.json()["choices"][0]["text"])
        events = [line[6:] for line in self.body.split(b"\n") if line.startswith(b"data: {")]
        return "".join(choice["text"] for one in events for choice in json.loads(one).get("choices", ()))


async def ask(port: int, path: str, body: Any = None, *, leave_after: float | None = None, pause: float = 0) -> Answer:
    """One request on its own connection.

    ``leave_after`` closes it after so many seconds, whatever has come; ``pause`` waits before each part that is read.
    """
    began, found = time.perf_counter(), Answer()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        content = b"" if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", "connection: close"]
        lines += ["content-type: application/json", f"content-length: {len(content)}", "", ""]
        writer.write("\r\n".join(lines).encode() + content)
        if leave_after is not None:
            await asyncio.sleep(leave_after)
            return found
        head = await reader.readuntil(b"\r\n\r\n")
        found.status = int(head.split(b" ", 2)[1])
        if seconds := re.search(rb"(?i)\r\nretry-after: (\d+)", head):
            found.retry_after = float(seconds[1])
        parts = []
        while part := await reader.read(1 << 16 if not pause else 10):
            parts.append(part)
            if found.first is None:
                found.first = time.perf_counter() - began
            if pause:
                await asyncio.sleep(pause)
        found.body = _unchunked(b"".join(parts)) if b"transfer-encoding: chunked" in head.lower() else b"".join(parts)
        found.seconds = time.perf_counter() - began
        return found
    finally:
        writer.close()


def _unchunked(content: bytes) -> bytes:
    found, at = [], 0
    while at < len(content):
        end = content.index(b"\r\n", at)
        size = int(content[at:end], 16)
        found.append(content[end + 2 : end + 2 + size])
        at = end + 4 + size
        if size == 0:
            break
    return b"".join(found)


async def number(port: int, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = (await ask(port, "/metrics")).body.decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{| )", line))


async def closed_loop(
    port: int,
    clients: int,
    seconds: float,
    body: dict[str, Any] | Callable[[random.Random], dict[str, Any]],
    path: str,
    *,
    patient: bool = True,
) -> list[Answer]:
    """So many clients who each ask again as soon as they are answered: for ``body`` with a seed, or what it gives.

    One that was refused waits as long as the server asks (Retry-After), as OpenAI's client does; or, where it is not
    ``patient``, 0.1 to 0.3 seconds.
    """
    found: list[Answer] = []
    until = time.perf_counter() + seconds

    async def client(seed: int) -> None:
        choose = random.Random(seed)
        while time.perf_counter() < until:
            asked = body(choose) if callable(body) else {**body, "seed": choose.randrange(1 << 30)}
            answer = await ask(port, path, asked)
            found.append(answer)
            if answer.status == 429:
                await asyncio.sleep(answer.retry_after if patient else choose.uniform(0.1, 0.3))

    await asyncio.gather(*(client(seed) for seed in range(clients)))
    return found


def quantile(values: list[float], share: float) -> float:
    """The value that a share of all are at most."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
