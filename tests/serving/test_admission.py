"""Places: what is refused, when a refused client should come again, and that a full server reads no bodies."""

import socket
import threading

import httpx
import pytest
from served_models import Server, until

from headway.serving import models as module
from headway.serving.models import Places
from headway.serving.responses import RequestError


def test_a_refused_client_is_told_when_those_who_wait_have_had_their_turn(monkeypatch):
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    places = Places(running=2, queue=10, queued_tokens=1000)
    places.take([1] * 12)
    assert places.retry_after == 1  # nothing is known yet
    for _ in range(4):
        now += 0.5
        places.leave(1)
        places.take([1])
    with pytest.raises(RequestError) as refused:
        places.take([1])
    assert refused.value.headers == {"retry-after": "5"}  # ten wait, one is over each half second
    now += 10_000.0
    for _ in range(12):
        places.leave(1)
    places.take([1])
    now += 10_000.0  # nobody waits: that time says nothing
    places.leave(1)
    places.take([1] * 12)
    assert places.retry_after == module.LONGEST_RETRY


def test_a_full_server_refuses_before_the_body_has_come(models):
    slow = "import time\nfrom headway.runtime.batcher import Batcher\nstep = Batcher.step\n"
    slow += "Batcher.step = lambda self: (time.sleep(0.02), step(self))[1]\n"
    with Server(models["text"], "--running", 1, "--queue", 0, "--quiet", script=slow) as server:
        body = {"model": "text", "prompt": "a", "max_tokens": 200, "logit_bias": {"0": -100}}
        asking = threading.Thread(target=lambda: httpx.post(f"{server.address}/v1/completions", json=body, timeout=60))
        asking.start()
        until(lambda: server.metric("headway_running") == 1)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
            lines = ["POST /v1/completions HTTP/1.1", "host: localhost", "content-type: application/json"]
            connection.sendall("\r\n".join([*lines, "content-length: 100", "", ""]).encode())
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(4096)
            assert b" 429 " in answer.split(b"\r\n")[0] and b"server_overloaded" in answer
            connection.sendall(b"x" * 100 + b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b" 200 " in connection.recv(4096).split(b"\r\n")[0]  # the connection is still of use
        assert server.metric("headway_rejected_total", reason="busy") == 1
        asking.join()
