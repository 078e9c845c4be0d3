"""Many clients that do nothing, a client of another age, and nowhere to write a log."""

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import openai
import pytest
from served_models import ROOT, Server, until

OLDEST = Path(sys.prefix) / "openai-oldest"
"""Where ``make`` installs the oldest version of the official client that today's httpx allows."""
IDLE = 1000


@pytest.fixture
def many_files():
    """So many connections may be open in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 200:
        pytest.skip(f"this system allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 200), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def asking(port: int, body: dict) -> socket.socket:
    """A connection on which a stream was asked for, and that is never read."""
    content = json.dumps(body).encode()
    lines = ["POST /v1/completions HTTP/1.1", "host: localhost", "content-type: application/json"]
    found = socket.create_connection(("127.0.0.1", port), timeout=30)
    found.sendall("\r\n".join([*lines, f"content-length: {len(content)}", "", ""]).encode() + content)
    return found


def test_a_thousand_clients_that_never_read_keep_nobody_from_an_answer(models, many_files):
    server = Server(models["text"], "--quiet")  # which takes 1,024 connections
    body = {"model": "text", "prompt": "the cat", "max_tokens": 20, "stream": True}
    idle = [asking(server.port, body) for _ in range(IDLE)]
    try:
        answers = []

        def answered() -> bool:
            answers.append(server.post("/v1/completions", {**body, "stream": False, "max_tokens": 5}).status_code)
            return answers[-1] == 200

        until(answered)
        assert set(answers) <= {200, 429}
        assert server.get("/health").status_code == 200
        assert all(one.recv(12).startswith(b"HTTP/1.1 ") for one in idle[:: IDLE // 50])
    finally:
        for one in idle:
            one.close()
    until(lambda: server.metric("headway_running") == server.metric("headway_queued") == 0)
    assert server.stop() == 0


def test_connections_on_which_nothing_is_asked(server, many_files):
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(100)]
    assert server.post("/v1/completions", {"model": "text", "prompt": "a", "max_tokens": 2}).status_code == 200
    for one in idle:
        one.close()


def test_the_asynchronous_client(server):
    async def texts() -> tuple[list[str], list[str]]:
        async with openai.AsyncOpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0) as client:

            async def plain(seed: int) -> str:
                found = await client.completions.create(
                    model="text", prompt="the cat", max_tokens=9, seed=seed, temperature=1
                )
                return found.choices[0].text

            async def streamed(seed: int) -> str:
                events = await client.completions.create(
                    model="text", prompt="the cat", max_tokens=9, seed=seed, temperature=1, stream=True
                )
                return "".join([event.choices[0].text async for event in events])

            found = await asyncio.gather(*(call(seed) for call in (plain, streamed) for seed in range(6)))
        return found[:6], found[6:]

    one, other = asyncio.run(texts())
    assert one == other and len(set(one)) > 1


def test_the_oldest_client():
    """All that the newest is asked in ``test_serving_openai.py``."""
    if not OLDEST.is_dir() and not os.environ.get("CI"):
        pytest.skip("`make test` installs it")
    places = os.pathsep.join([str(OLDEST), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    file = Path(__file__).with_name("test_serving_openai.py")
    code = "import openai, pytest, sys; print(openai.__version__); sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(file), "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": places}, cwd=ROOT)
    assert done.stdout.startswith("1.") and done.returncode == 0, done.stdout[-3000:]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_disk_for_logs_stops_no_answer(models):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "headway", "serve", str(models["text"]), "--port", str(port), "--threads", "1"]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(
            command, stdout=full, stderr=full, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
        )
    address = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        assert process.poll() is None, "it ended"
        try:
            return httpx.get(f"{address}/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(is_ready, 60)
        for _ in range(3):
            body = {"model": "text", "prompt": "a", "max_tokens": 3}
            assert httpx.post(f"{address}/v1/completions", json=body, timeout=30).status_code == 200
            assert httpx.get(f"{address}/none", timeout=30).status_code == 404
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
