"""``POST /inside``: what it says agrees with the model, within its limits."""

import math

import pytest
import torch
from doors_kit import made

import headway
from headway.runtime.precision import available
from headway.serving.inside import LONGEST_TEXT, MAPS
from headway.workflows.inside import inside_details, look_inside

TEXT = "the cat sat on a mat"


@pytest.fixture(scope="module")
def look(server):
    def ask(model: str, status: int = 200, **more: object) -> dict:
        response = server.post("/inside", {"model": model, "text": TEXT, **more})
        assert response.status_code == status, response.text
        return response.json()

    return ask


def test_the_outputs_are_the_models(look, models):
    pipe = headway.load(models["text"])
    ids = pipe.tokenizer.encode(TEXT)
    with torch.no_grad():
        likely = pipe.model(torch.tensor([ids]))[0].softmax(-1)  # (T, V)
    for at in (2, None):
        found = look("text", **({} if at is None else {"at": at}))
        where = len(ids) - 1 if at is None else at
        best = likely[where].topk(5).values.tolist()
        assert found["at"] == where
        assert [one["probability"] for one in found["outputs"][:5]] == pytest.approx(best, abs=1e-4)
        assert found["lens"]["best"][-1][where]["probability"] == pytest.approx(best[0], abs=1e-3)
    assert len(found["lens"]["best"]) == 3 == len(found["vectors"]["norms"])
    assert len(found["attribution"]["text"]) == len(ids) == len(found["tokens"]["text"])
    assert found["heads"] == {"self": [2, 2]} and found["explorer"]["kinds"][0]["shape"] == [len(ids)] * 2


def test_a_classifier_names_its_labels(look, server):
    (answer,) = server.post("/classify", {"model": "labels", "inputs": [TEXT]}).json()["answers"]
    found = look("labels")
    assert found["at"] is None
    assert {one["name"]: one["probability"] for one in found["outputs"]} == pytest.approx(answer["scores"], abs=1e-4)


def test_a_mask_is_what_is_looked_at(look):
    found = look("fill", text="the [MASK] sat")
    assert found["tokens"]["text"][found["at"]] == "[MASK]"


def test_a_tagger_is_looked_at_from_its_first_word(tmp_path):
    pipe = headway.load(made("BertForTokenClassification", "token-classification", tmp_path / "tags"))
    found = look_inside(pipe, TEXT)
    assert found.tokens["text"][0] == "[CLS]" and inside_details(pipe, found)["at"] == 1


def test_all_heads_of_all_layers_off_and_none(look):
    none, one = look("text", off=[]), look("text", off=[{"kind": "self", "layer": 0, "head": 1}])
    assert "without" not in none and one["without"]["change"] > 1e-4
    before = {row["name"]: row["before"] for row in one["without"]["compared"]}
    assert all(before.get(row["name"], row["probability"]) == row["probability"] for row in none["outputs"][:8])


def test_vectors_and_translations(look):
    vectors = look("vectors", off=[{"kind": "self", "layer": 1, "head": 0}])
    assert vectors["outputs"] is None and vectors["without"]["change"] > 0
    found = look("marian")
    titles = [one["title"].split(":")[0] for one in found["explorer"]["kinds"]]
    assert titles == ["encoder", "decoder", "cross-attention"]
    assert set(found["attribution"]) == {"source", "target"} and found["target"] is not None
    assert look("marian", target="the cat")["target"] == "the cat"


def test_the_answer_is_bounded(server):
    response = server.post("/inside", {"model": "text", "text": "the cat sat " * 50})
    assert response.status_code == 200 and len(response.content) < 2 * MAPS
    assert all(math.isfinite(value) for row in response.json()["vectors"]["norms"] for value in row)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"text": ""}, 400, "text"),
        ({"text": "a" * (LONGEST_TEXT + 1)}, 400, "text"),
        ({"text": "the cat " * 300}, 400, "at most 256 are shown"),
        ({"text": TEXT, "at": 200}, 400, "there is no token 200"),
        ({"text": TEXT, "off": [{"kind": "self", "layer": 7, "head": 0}]}, 400, "there is no head 0 in layer 7"),
        ({"text": TEXT, "off": [{"kind": "cross", "layer": 0, "head": 0}]}, 400, "of 'cross' attention"),
        ({"text": TEXT, "target": "a"}, 400, "a target is for models that translate"),
        ({"text": TEXT, "model": "nothing"}, 404, "there is no model 'nothing'"),
        ({"text": TEXT, "model": "pictures"}, 400, "reads pictures"),
        ({"text": TEXT, "other": 1}, 400, "other"),
    ],
)
def test_what_is_wrong_is_one_message(server, body, status, said):
    response = server.post("/inside", {"model": "text", **body})
    assert response.status_code == status and said in response.json()["error"]["message"]


@pytest.mark.skipif("int8" not in available(torch.device("cpu")), reason="this processor has float32 only")
def test_a_quantised_model_has_no_attribution_and_everything_else(models):
    for name in ("text", "labels"):
        pipe = headway.load(models[name], precision="int8")
        found = inside_details(pipe, look_inside(pipe, TEXT))
        assert found["attribution"] == {} and found["outputs"] and found["vectors"]
