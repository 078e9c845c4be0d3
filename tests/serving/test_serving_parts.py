"""The parts of a server by themselves: schemas, places, settings, pieces of text, and an application in process."""

import json
import shutil
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from served_models import until

import headway
from headway.errors import InputError
from headway.generation.sampling import Likely, Sampling
from headway.io.atomic_write import write_json
from headway.serving.app import create_app
from headway.serving.body import checked, optional
from headway.serving.models import Models, Places
from headway.serving.responses import RequestError
from headway.serving.settings import Settings
from headway.serving.text_stream import GenerationOptions, TextStream

WHOLE = {"type": "integer", "minimum": 1, "maximum": 7}
THING = {
    "type": "object",
    "properties": {
        "count": optional(WHOLE, 3),
        "names": {"type": "array", "items": {"type": "string", "maxLength": 2}},
    },
    "required": ["names"],
    "additionalProperties": False,
}


def test_a_checked_value_has_its_defaults():
    assert checked({"names": ["a"]}, THING) == {"names": ["a"], "count": 3}
    assert checked({"names": [], "count": None}, THING) == {"names": [], "count": 3}
    found = checked({"names": [], "count": 5.0}, THING)["count"]
    assert found == 5 and isinstance(found, int)


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({}, "names"), ({"names": "a"}, "names"), ({"names": ["abc"]}, "names[0]"), ({"names": [1]}, "names[0]"),
        ({"names": [], "count": 0}, "count"), ({"names": [], "count": 8}, "count"), ({"names": [], "x": 1}, "x"),
        ({"names": [], "count": 1.5}, "count"), ({"names": [], "count": True}, "count"), ([], None),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(value, param):
    with pytest.raises(RequestError) as caught:
        checked(value, THING)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_null_is_among_the_values_of_an_optional_field():
    schema = optional({"type": "string", "enum": ["a", "b"]}, "b")
    assert schema["enum"] == ["a", "b", None] and checked(None, schema) == "b" == checked("b", schema)
    with pytest.raises(RequestError, match=r"it must be 'a' or 'b'$"):
        checked("c", schema)


def test_the_message_about_alternatives_is_about_the_one_that_was_meant():
    either = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": WHOLE, "minItems": 1}]}
    for value, words in (([8], "at most 7"), ("", "empty"), ([], "empty"), (3, "it must be")):
        with pytest.raises(RequestError, match=words):
            checked(value, either, "field")


def test_places_are_taken_and_given_back():
    places = Places(running=2, queue=1, queued_tokens=10)
    places.take([20, 3])  # these do not wait
    with pytest.raises(RequestError) as caught:
        places.take([1])
    assert caught.value.status == 429 and "tokens" in caught.value.message
    places.leave(20)
    places.take([4])
    places.take([3])
    with pytest.raises(RequestError) as caught:
        places.take([1])
    assert caught.value.status == 429 and caught.value.headers["retry-after"] == "1"
    with pytest.raises(RequestError) as caught:
        places.check(4)
    assert caught.value.status == 400
    places.closed = "stopping"
    with pytest.raises(RequestError) as caught:
        places.check()
    assert caught.value.status == 503


def test_hosts_and_addresses():
    for host, settings, allowed in (
        *(("localhost:8000", Settings(), True), ("evil.example", Settings(), False), ("[::1]:80", Settings(), True)),
        *(("10.0.0.1", Settings(), True), ("", Settings(), False), ("a.example", Settings(hosts=("A.example",)), True)),
        ("any.example", Settings(keys=("long-enough",)), True),
        ("any.example", Settings(keys=("long-enough",), hosts=("a.example",)), False),
    ):
        assert settings.allows_host(host) == allowed, host
    for wrong in ({"host": "0.0.0.0"}, {"host": "example.org"}, {"keys": ("short",)}, {"origins": ("*",)}):
        with pytest.raises(InputError):
            Settings(**wrong)
    assert Settings(host="0.0.0.0", keys=("long-enough",)) and Settings(host="0.0.0.0", insecure=True)


def test_tokens_are_told_with_the_text_that_they_make(models):
    """Those of half a character wait for the rest, and the probability of what is impossible is a number."""
    pipe = headway.load(models["text"])
    ids = pipe.tokenizer.encode("a🙂b")
    text = TextStream(pipe.prompt("the"), GenerationOptions(Sampling(), len(ids) + 1, likely=1))
    pieces = [text.push(one, Likely(-float("inf"), [(one, -0.5)])) for one in ids]
    last = text.end()
    assert "".join(one.text for one in [*pieces, last]) == "a🙂b" and last.finish == "stop"
    tokens = [token for one in [*pieces, last] for token in one.tokens]
    assert bytes(byte for token in tokens for byte in token.bytes).decode() == "a🙂b"
    assert {token.log_probability for token in tokens} == {-9999.0} and len(tokens) == len(ids)


def test_models_come_and_go_while_others_answer(models):
    served = Models(Settings())
    served.load(str(models["text"]))
    body = {"prompt": "the cat", "max_tokens": 4, "temperature": 0}
    with TestClient(create_app(served, Settings()), base_url="http://localhost") as client:

        def ask(name):
            return client.post("/v1/completions", json={**body, "model": name}).status_code

        assert ask("text") == 200 and ask("other") == 404
        assert client.post("/classify", json={"inputs": ["a"]}).status_code == 404
        served.load(str(models["text"]), "other")
        served.load(str(models["labels"]), "labels")
        assert ask("other") == 200 and client.post("/classify", json={"inputs": ["a"]}).status_code == 200
        assert "/classify" in client.get("/openapi.json").json()["paths"]
        served.drop("text")
        assert ask("text") == 404 and ask("other") == 200
        assert [one["id"] for one in client.get("/v1/models").json()["data"]] == ["other", "labels"]


def test_a_recurrent_model_is_served_one_text_by_one(corpus, tiny, tmp_path):
    options = {name: value for name, value in tiny.items() if name != "heads"}
    headway.train(corpus, out=tmp_path / "lstm", quiet=True, model="lstm", **{**options, "steps": 2})
    served = Models(Settings())
    served.load(str(tmp_path / "lstm"))
    how = {"max_tokens": 7, "temperature": 0}
    with TestClient(create_app(served, Settings()), base_url="http://localhost") as client:
        body = {"model": "lstm", "prompt": ["the cat", "dogs"], **how}
        found = [one["text"] for one in client.post("/v1/completions", json=body).json()["choices"]]
        refused = client.post("/v1/completions", json={**body, "logprobs": 1})
    assert found == [headway.load(tmp_path / "lstm")(one, max_tokens=7, temperature=0.0) for one in ("the cat", "dogs")]
    assert refused.status_code == 400 and refused.json()["error"]["code"] == "unsupported_parameter"


def test_a_model_that_has_recovered_is_ready_again(models):
    served = Models(Settings())
    one = served.load(str(models["labels"]))
    with TestClient(create_app(served, Settings()), base_url="http://localhost") as client:
        assert client.get("/ready").status_code == 200
        one.sound = False
        assert client.get("/ready").status_code == 503
        until(lambda: client.get("/ready").status_code == 200)


def test_what_answers_is_said_wherever_models_are_named(server, models):
    """A version of the files, the precision and the engine: when the server starts, in the list and in the metrics."""
    listed = {one["id"]: one for one in server.get("/v1/models").json()["data"]}
    assert set(listed) == set(models)
    for one in listed.values():
        assert (one["precision"], one["engine"]) == ("float32", "torch") and len(one["version"]) == 12
        assert [line for line in server.lines if f"{one['id']}: {one['title']}, float32 by torch, " in line]
        labels = {"model": one["id"], **{key: one[key] for key in ("task", "version", "precision", "engine")}}
        assert server.metric("headway_model_info", **labels) == 1
    assert len({one["version"] for one in listed.values()}) == len(models)


def test_a_version_is_that_of_the_files(models, tmp_path):
    served = Models(Settings())
    first = served.load(str(models["labels"])).loaded_as
    copied = Path(shutil.copytree(models["labels"], tmp_path / "labels"))
    assert served.load(str(copied)).loaded_as == first
    config = json.loads((copied / "config.json").read_text())
    write_json(copied / "config.json", {**config, "id2label": {number: f"x{number}" for number in config["id2label"]}})
    again = served.load(str(copied)).loaded_as
    assert again["version"] != first["version"] and again["precision"] == "float32"
