"""A server behind a proxy's path, with an engine for each model, and its line about each request."""

import json

import httpx
import pytest
from served_models import Server

import headway
from headway.serving.settings import Settings
from headway.workflows.export import export

KEYS = "# who may\nalice long-enough-1\nlong-enough-2\n"


@pytest.fixture(scope="module")
def prefixed(models, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(KEYS)
    words = [models[name] for name in ("text", "labels", "vectors")]
    found = Server(*words, "--prefix", "/our/models", "--keys", keys)
    yield found
    assert found.stop() == 0


def asked(server, path, body=None, key="long-enough-1", **headers):
    about = {"headers": {"authorization": f"Bearer {key}", **headers}, "timeout": 60}
    address = f"http://127.0.0.1:{server.port}{path}"
    return httpx.get(address, **about) if body is None else httpx.post(address, json=body, **about)


def test_routes_answer_with_the_prefix_and_without_it(prefixed):
    for path in ("/our/models/v1/models", "/v1/models"):
        assert len(asked(prefixed, path).json()["data"]) == 3
    assert asked(prefixed, "/our/models/openapi.json").json()["servers"] == [{"url": "/our/models"}]
    assert asked(prefixed, "/our/modelsv1/models").status_code == 404
    assert asked(prefixed, "/our/models/classify", {"inputs": ["a"]}, key="wrong-key").status_code == 401


def test_the_page_finds_its_files_and_routes_behind_the_prefix(prefixed, browser):
    page = browser.new_page()
    failed = []
    page.on(
        "response", lambda one: failed.append(one.url) if one.status >= 400 and "v1/models" not in one.url else None
    )
    page.goto(f"http://127.0.0.1:{prefixed.port}/our/models")
    assert page.url.endswith("/our/models/")
    page.wait_for_selector("input[type=password]")  # the models are asked for, and a key is wanted
    page.close()
    assert failed == []


def test_a_line_names_the_key_the_model_and_the_tokens_of_a_request(prefixed):
    completed = {"model": "text", "prompt": "the cat", "max_tokens": 4, "temperature": 0}
    requests = [
        ("/v1/completions", completed, "long-enough-1"),
        ("/our/models/v1/completions", {**completed, "stream": True}, "long-enough-2"),
        ("/generate", {"inputs": ["the cat"], "max_tokens": 4, "temperature": 0}, "long-enough-2"),
        ("/v1/embeddings", {"model": "vectors", "input": "the cat"}, "long-enough-1"),
        ("/classify", {"inputs": ["the cat"]}, "long-enough-1"),
        ("/classify", {"inputs": ["the cat"]}, "none-of-those"),
    ]
    for path, body, key in requests:
        asked(prefixed, path, body, key, **{"x-request-id": "this-test"})
    lines = []
    while len(lines) < len(requests):
        line = json.loads(prefixed.process.stderr.readline())
        if line["request_id"] == "this-test":
            lines.append(line)
    assert [line.get("key") for line in lines] == ["alice", 2, 2, "alice", "alice", None]
    assert [line.get("model") for line in lines] == ["text", "text", "text", "vectors", "labels", None]
    counted = [(line.get("prompt_tokens"), line.get("completion_tokens")) for line in lines]
    assert counted[0] == counted[1] == counted[2] and counted[0][1] == 4 and counted[0][0] > 0
    assert counted[3][0] > 0 and counted[4] == counted[5] == (None, None)
    assert "long-enough" not in json.dumps(lines) and "cat" not in json.dumps(lines)


def test_an_engine_for_each_model(models, tmp_path, in_process):
    run = tmp_path / "run"
    headway.save_model(headway.load_model(models["labels"]), run)
    for file in models["labels"].iterdir():
        if not (run / file.name).exists() or file.name == "config.json":
            (run / file.name).write_bytes(file.read_bytes())
    export(run, run / "exports" / "onnx", to="onnx")
    server = Server(f"a={run}", f"b={models['labels']}", "--engine", "a=onnxruntime", "--quiet")
    try:
        listed = {one["id"]: one["engine"] for one in server.get("/v1/models").json()["data"]}
        assert listed == {"a": "onnxruntime", "b": "torch"}
        answers = [server.post("/classify", {"model": name, "inputs": ["the cat"]}).json()["answers"] for name in "ab"]
        assert answers[0][0]["label"] == answers[1][0]["label"]
    finally:
        assert server.stop() == 0
    for words, said in ((("c=torch",), "no model is named 'c'"), (("torch", "onnxruntime"), "given twice")):
        given = [word for one in words for word in ("--engine", one)]
        code, _, err = in_process("serve", models["labels"], *given)
        assert code == 2 and said in err


@pytest.mark.parametrize("prefix", ["models", "/models/", "/a b", "/", "//a"])
def test_a_prefix_that_is_no_path(prefix):
    with pytest.raises(headway.InputError, match="--prefix"):
        Settings(prefix=prefix)
