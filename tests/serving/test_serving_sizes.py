"""Small requests that ask for very much: they are refused, or can be interrupted, and others have their turn."""

import asyncio
import base64
import io
import threading
import time

import httpx
import pytest
from PIL import Image
from served_models import Server, until

from headway.errors import InputError
from headway.serving.responses import as_json, in_pieces
from headway.serving.worker import Left, Worker
from headway.tasks.inputs import Prompt


def picture(width: int, height: int) -> str:
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_numbers_that_would_mean_no_limit_are_refused(server):
    for path, options in (
        *(("/generate", {"max_tokens": 0}), ("/generate", {"max_tokens": -5}), ("/generate", {"top_k": -2})),
        *(("/generate", {"temperature": -1}), ("/fill", {"k": 0}), ("/translate", {"beam": 0})),
        *(("/translate", {"n_best": -1}), ("/translate", {"length_penalty": 11})),
    ):
        model = {"/generate": "text", "/fill": "fill", "/translate": "marian"}[path]
        found = server.post(path, {"model": model, "inputs": ["a [MASK]"], **options})
        assert found.status_code == 400 and found.json()["error"]["param"] == next(iter(options)), found.text


def test_answers_that_would_be_far_larger_than_the_request_are_refused(server):
    many = server.post("/fill", {"inputs": ["[MASK] " * 1001]})
    assert many.status_code == 400 and "values" in many.json()["error"]["message"]
    long = {"model": "marian", "inputs": ["a. " * 1000], "alignment": True}
    wide = server.post("/translate", long)
    assert wide.status_code == 400 and "values" in wide.json()["error"]["message"]
    assert server.post("/fill", {"inputs": ["[MASK] " * 5]}).status_code == 200


def test_pictures_are_measured_before_they_are_unpacked(server):
    for pictures, at in (([picture(8000, 8000)], 0), ([picture(10, 10)] + [picture(5000, 6000)] * 5, 5)):
        found = server.post("/classify", {"model": "pictures", "inputs": pictures})
        error = found.json()["error"]
        assert found.status_code == 400 and error["param"] == f"inputs[{at}]" and "pixels" in error["message"]
    file = io.BytesIO()
    Image.effect_noise((200, 200), 50).save(file, "PNG")
    broken = base64.b64encode(file.getvalue()[:-9000]).decode()
    one = server.post("/classify", {"model": "pictures", "inputs": [picture(30, 20), broken]})
    assert one.status_code == 400 and "picture 2" in one.json()["error"]["message"]
    assert server.post("/classify", {"model": "pictures", "inputs": [picture(900, 20)] * 20}).status_code == 200


def test_nothing_to_continue_is_the_clients_error():
    with pytest.raises(InputError, match="no tokens"):
        Prompt([], frozenset(), None, 1)  # type: ignore[arg-type]


def test_a_text_that_the_batcher_refuses_fails_alone(models):
    script = """
from headway.runtime.batcher import Batcher
submit = Batcher.submit
def refusing(self, ids, *given, **how):
    if how["max_tokens"] == 7:
        raise ValueError("no")
    return submit(self, ids, *given, **how)
Batcher.submit = refusing
"""
    with Server(models["text"], "--quiet", script=script) as server:
        body = {"model": "text", "prompt": "a", "max_tokens": 7}
        assert server.post("/v1/completions", body).status_code == 500
        assert server.post("/v1/completions", {**body, "max_tokens": 6}).status_code == 200
        assert server.get("/ready").status_code == 200 and server.metric("headway_queued") == 0


def test_a_client_that_leaves_ends_a_long_part(models):
    """Batches of a part are counted: those after the client has left are not computed."""
    script = """
import time
from headway.runtime.runtime import Runtime
pause = Runtime._pause
Runtime._pause = lambda self: (time.sleep(0.1), pause(self))[1]
from headway.runtime import runtime
runtime.tokens_at_once = lambda config, device: 1
"""
    with Server(models["labels"], "--quiet", script=script) as server:
        texts = [" dogs" * 20] * 16 * 16
        began = time.monotonic()
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.address}/classify", json={"inputs": texts}, timeout=0.5)
        assert server.post("/classify", {"inputs": ["dogs"]}).status_code == 200
        assert time.monotonic() - began < 2


def test_requests_have_their_turn_part_by_part():
    """A request of many parts does not hold up one that comes later; who has left computes nothing more."""
    order: list[str] = []

    async def run() -> None:
        worker = Worker()
        worker.start(asyncio.get_running_loop())
        go = threading.Event()

        def answer(name: str) -> str:
            go.wait(5)
            order.append(name)
            return name

        long = asyncio.ensure_future(worker.run(lambda part: answer("long"), [1] * 10))
        await asyncio.sleep(0.1)
        short = asyncio.ensure_future(worker.run(lambda part: answer("short"), [1]))
        await asyncio.sleep(0.1)
        go.set()
        assert await short == ["short"]
        assert await long == ["long"] * 10
        assert order.index("short") < 4

        computed = 0

        def slow(part: int) -> None:
            nonlocal computed
            for _ in range(100):
                worker.between()
                computed += 1
                time.sleep(0.02)

        leaving = asyncio.ensure_future(worker.run(slow, [1, 2, 3]))
        await asyncio.sleep(0.2)
        leaving.cancel()
        await asyncio.sleep(0.3)
        assert 0 < computed < 20 and worker.failures == 0 and worker.running == 0
        worker.stop()

    asyncio.run(run())
    assert issubclass(Left, Exception)


def test_large_answers_are_written_in_pieces():
    value = {"a": [{"b": [1, {"c": "é\n"}]}, None, 0.5], "d": {}, "e": [], "f": {1: True}}
    assert in_pieces(value) == as_json(value)


def test_the_document_says_what_each_model_of_a_verb_takes(server):
    schema = server.get("/openapi.json").json()["paths"]["/classify"]["post"]["requestBody"]["content"]
    kinds = schema["application/json"]["schema"]["anyOf"]
    by_model = {kind["properties"]["model"]["enum"][0]: kind["properties"]["inputs"]["items"] for kind in kinds}
    assert "contentEncoding" in by_model["pictures"] and "contentEncoding" not in by_model["labels"]
    until(lambda: server.metric("headway_queued") == 0)
