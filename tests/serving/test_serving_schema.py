"""Requests made from the server's own description, right and wrong ones: no 5xx, and the server stays as it was."""

import json
import math
import subprocess
import sys

import httpx
import pytest

CONFIG = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 404, 405, 406, 413, 415, 429]
"""
CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    *("response_schema_conformance", "negative_data_rejection"),
)
CANARY = {"model": "text", "prompt": "the cat", "max_tokens": 5, "temperature": 0}


def test_requests_made_from_the_description(server, tmp_path):
    """Every route, the boundaries of every field, and at random; NUL characters among them."""
    canary = server.post("/v1/completions", CANARY).json()["choices"][0]["text"]
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    words = ["run", f"{server.address}/openapi.json", "--mode", "all", "--phases", "coverage,fuzzing"]
    words += ["--max-examples", "10", "--checks", ",".join(CHECKS), "--continue-on-failure", "--no-color"]
    code = "from schemathesis.cli import schemathesis; schemathesis()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert int(done.stdout.split("Test cases:")[1].split()[0].replace(",", "")) >= 500
    assert server.post("/v1/completions", CANARY).json()["choices"][0]["text"] == canary


VALUES = [
    *(None, True, "", "a" * 5000, -1, 0, 1, 0.5, 1 << 31, 1 << 63, -(1 << 63) - 1, 10**39, 1e300, [], {}, [[]]),
    *([None], ["a"] * 300, [1] * 600, {"a": 1}, {"1": "b"}, {"type": "text"}, [{"role": "user"}], "\0", "\ud7ff\ufffe"),
]
RAW = ["NaN", "Infinity", "-Infinity", "1e400", "9" * 400, '"\\ud800"', "[" * 50 + "]" * 50]
BASES = {
    "/v1/completions": {"model": "text", "prompt": "a", "max_tokens": 2},
    "/v1/chat/completions": {"model": "chat", "messages": [{"role": "user", "content": "a"}], "max_tokens": 2},
    "/v1/embeddings": {"model": "vectors", "input": "a"},
    "/generate": {"model": "text", "inputs": ["a"], "max_tokens": 2},
    "/translate": {"inputs": ["a"], "beam": 1},
    "/embed": {"inputs": ["a"]},
}


@pytest.mark.parametrize("path", BASES)
def test_every_field_with_every_kind_of_value(server, path):
    """Only 200, or a 4xx that names the field or what goes with it."""
    described = server.get("/openapi.json").json()["paths"][path]["post"]["requestBody"]["content"]
    fields = list(described["application/json"]["schema"]["properties"])
    assert len(fields) >= 3
    with httpx.Client(base_url=server.address, timeout=60) as client:
        for field in fields:
            for value in VALUES:
                found = client.post(path, json={**BASES[path], field: value})
                place = (path, field, str(value)[:50], found.text[:300])
                assert found.status_code in (200, 400, 404), place
                if found.status_code != 200:
                    param = found.json()["error"]["param"]
                    goes_with = {"stream_options": "stream", "top_logprobs": "logprobs"}
                    allowed = {field, goes_with.get(field), "prompt", "messages", "inputs", "n", "model"}
                    assert param is None or param.split(".")[0].split("[")[0] in allowed, place
                elif isinstance(value, float) and not math.isfinite(value):
                    raise AssertionError(place)
            for raw in RAW:
                body = json.dumps({**BASES[path], field: "HERE"}).replace('"HERE"', raw)
                found = client.post(path, content=body, headers={"content-type": "application/json"})
                assert found.status_code == 400 and found.json()["error"]["code"] == "invalid_json", (field, raw[:20])
            missing = {key: value for key, value in BASES[path].items() if key != field}
            assert client.post(path, json=missing).status_code in (200, 400)
        assert client.post("/v1/completions", json=CANARY).status_code == 200
