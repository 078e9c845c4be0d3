"""Connections: clients that never read, requests that are framed in two ways, and signals at the wrong time."""

import contextlib
import json
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
from served_models import Server, until
from test_serving_limits import head, raw

SHORT = """
from headway.serving import settings
check = settings.Settings.__post_init__
settings.Settings.__post_init__ = lambda self: (check(self), self.__dict__.update(write_seconds=1.5))[0]
"""


def _files(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def _never_reading(server: Server, requests: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.settimeout(0.2)
    found.connect(("127.0.0.1", server.port))
    with contextlib.suppress(TimeoutError):  # the server reads no more requests of a client that reads nothing
        found.sendall(head("/playground/main.js", key=None) * requests)
    return found


def test_a_client_that_never_reads_is_left(models):
    with Server(models["text"], "--quiet", script=SHORT) as server:
        server.get("/health")
        time.sleep(0.2)
        before = _files(server)
        open_ones = [_never_reading(server, requests) for requests in (2000, 2000, 1)]
        until(lambda: _files(server) >= before + 3, seconds=1)
        until(lambda: _files(server) <= before, seconds=20)
        for one in open_ones:
            one.close()
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow:
            slow.sendall(head("/playground/main.js", key=None, connection="close"))
            found = b""
            while part := slow.recv(64):
                found += part
                time.sleep(0.05 if len(found) < 4000 else 0)
        assert time.monotonic() - began > 2 and found.endswith(server.get("/playground/main.js").content[-200:])


def test_crooked_requests_get_errors_in_the_form_of_all_others(server):
    both = {"content-length": "2", "transfer-encoding": "chunked", "content-type": "application/json"}
    for content, status in (
        (head("/classify", key=None, method="POST", connection="close", **both) + b"0\r\n\r\n", b" 400 "),
        (head("/health", key=None, connection="close", **{"x-long": "a" * (17 << 10)}), b" 431 "),
        (head("/health?" + "a" * (17 << 10), key=None, connection="close"), b" 431 "),
        (b"GET / HTTP/9\r\n\r\n", b" 400 "),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b" 400 "),
    ):
        found = raw(server, content)
        assert status in found.splitlines()[0] and b'{"error":{"message":' in found, (content[:90], found)
    assert server.get("/health").status_code == 200
    for host in ("localhost:abc", "localhost:123456", "local host", "[::1", "a@localhost", ""):
        found = raw(server, head("/v1/models", key=None, host=host, connection="close"))
        assert b" 400 " in found.splitlines()[0], (host, found)


FAILING = """
from headway.serving import app
def fail(*_):
    raise RuntimeError("of a route")
app.document = fail
"""


def test_every_line_of_the_log_is_json(models):
    """Those of the library that listens too, and an error with its traceback is one of them."""
    with Server(models["text"], script=FAILING) as server:
        raw(server, b"\x16\x03\x01\x02\x00\r\n\r\n")
        assert server.get("/openapi.json").status_code == 500
    lines = [json.loads(line) for line in server.process.stderr]
    assert all(isinstance(line["time"], float) for line in lines)
    of_libraries = [line for line in lines if "message" in line]
    assert any("Invalid HTTP request" in line["message"] for line in of_libraries)
    assert any("of a route" in line["message"] and line["level"] == "error" for line in of_libraries)


def test_a_body_of_too_many_values_is_refused(server):
    ids = [1] * 200_000
    found = server.post("/v1/completions", {"model": "text", "prompt": ids, "max_tokens": 1})
    assert found.status_code == 400 and "values" in found.json()["error"]["message"]
    long = server.post("/v1/completions", {"model": "text", "prompt": ids[:100_000], "max_tokens": 1})
    assert long.status_code == 400 and long.json()["error"]["code"] == "context_length_exceeded"


def test_a_second_signal_ends_what_cannot_be_told_to_end(models):
    script = "import time\nfrom headway.serving import typed\ntyped._Use._compute = lambda self, inputs: time.sleep(60)"
    server = Server(models["labels"], "--quiet", script=script)
    body = {"inputs": ["old dogs"]}
    answers = []

    def ask() -> None:
        answers.append(httpx.post(f"{server.address}/classify", json=body, timeout=60).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: server.metric("headway_running") == 1)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0 and time.monotonic() - began < 9
    asking.join()
    assert answers == [503]


def test_sighup_while_the_models_are_loaded_does_no_harm(models):
    script = """
import os, signal
from headway.serving.models import Models
load = Models.load
Models.load = lambda self, *given, **how: (os.kill(os.getpid(), signal.SIGHUP), load(self, *given, **how))[1]
"""
    with Server(models["text"], "--quiet", script=script) as server:
        assert server.get("/health").status_code == 200
