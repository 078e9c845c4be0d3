"""The typed routes: what they answer is what the pipelines and ``headway predict --json`` answer."""

import base64
import io
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from served_models import ROOT, Server

import headway
from headway.serving.body import closed

TEXTS = ["the cat sat", "old dogs ran past " * 30, ""]


def close(found, expected):
    """Equal, but for rounding of numbers."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(close(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    return found == pytest.approx(expected, abs=1e-5) if isinstance(expected, float) else found == expected


@pytest.mark.parametrize("path", ["/classify", "/predict"])
def test_labels(server, models, path):
    found = server.post(path, {"model": "labels", "inputs": TEXTS})
    assert found.status_code == 200 and found.json()["model"] == "labels"
    assert close(found.json()["answers"], headway.load(models["labels"])(TEXTS))


def test_words_for_a_mask(server, models):
    texts = ["the [MASK] sat", "a [MASK] on a [MASK]"]
    found = server.post("/fill", {"inputs": texts, "k": 3}).json()
    assert found["model"] == "fill" and close(found["answers"], headway.load(models["fill"])(texts, k=3))


def test_translations(server, models):
    pipe = headway.load(models["marian"])
    found = server.post("/translate", {"inputs": ["the cat", " "], "beam": 3, "scores": True}).json()["answers"]
    assert close(found, [one[0] for one in pipe.hypotheses(["the cat", " "], 3)])
    ranked = server.post("/translate", {"inputs": ["the cat"], "beam": 3, "n_best": 2}).json()["answers"]
    assert close(ranked, pipe.hypotheses(["the cat"], 3, 2))


def test_who_asks_is_told_of_a_translation_that_is_cut_off_and_nobody_else(server):
    def ask(text: str) -> dict:
        return server.post("/translate", {"inputs": [text], "beam": 3}).json()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, ["the cat", " "] * 8))
    told = ["1 translation is cut off at the model's maximum length (61 tokens)"]
    assert [one.get("warnings") for one in found] == [told, None] * 8
    many = server.post("/translate", {"inputs": ["the cat", *[" "] * 20, "the cat"], "beam": 3}).json()
    assert many["warnings"] == [f"inputs[0] to inputs[15]: {told[0]}", f"inputs[16] to inputs[21]: {told[0]}"]


def test_vectors_cosines_and_rankings(server, models):
    pipe, texts = headway.load(models["vectors"]), ["the cat", "a mat", "red doors", "old dogs"] * 5
    assert close(server.post("/embed", {"inputs": texts}).json()["answers"], pipe(texts).tolist())
    cosines = server.post("/embed", {"inputs": texts, "similarity": True}).json()["answers"]
    assert close(cosines, pipe.similarity(texts).tolist())
    nearest = server.post("/embed", {"inputs": texts[:4], "nearest": "the mat", "k": 2}).json()["answers"]
    assert close(nearest, pipe.nearest("the mat", texts[:4], k=2))


def test_continuations_go_through_the_batcher(server, models):
    body = {"model": "text", "inputs": ["the cat", "日本"], "max_tokens": 20, "temperature": 0, "stop": ["\n\n"]}
    before = server.metric("headway_completion_tokens_total", model="text")
    expected = headway.load(models["text"])(["the cat", "日本"], max_tokens=20, temperature=0.0, stop=["\n\n"])
    assert server.post("/generate", body).json()["answers"] == expected
    assert server.metric("headway_completion_tokens_total", model="text") > before


def test_each_input_is_continued_as_long_as_if_it_was_alone(server, models):
    """One is nearly as long as the context, and one longer: the others do not get shorter answers."""
    pipe, near, longer = headway.load(models["text"]), "zq" * 245, "zq" * 400
    count = len(pipe.tokenizer.encode(longer))
    assert 512 - 40 < len(pipe.tokenizer.encode(near)) < 512 < count
    body = {"model": "text", "inputs": ["the cat", near, longer], "max_tokens": 40, "temperature": 0}
    said = f"the prompt has {count} tokens and the model reads 512: the last 512 are read"
    with pytest.warns(UserWarning, match=said):
        expected = pipe(body["inputs"], max_tokens=40, temperature=0)
    found = server.post("/generate", body).json()
    assert found["answers"] == expected and found["warnings"] == [f"inputs[2]: {said}"]
    alone = [server.post("/generate", {**body, "inputs": [text]}).json() for text in body["inputs"]]
    assert [one["answers"][0] for one in alone] == expected and alone[2]["warnings"] == [said]
    assert [one.get("warnings") for one in alone[:2]] == [None, None]


ODD = ["the cat sat", "", " ", "a", "日本 🙂 ภาษาไทย", "\n\nred doors\t", "zzz \u2028 ﬀ", "old dogs ran past " * 9]


@pytest.mark.parametrize(
    ("path", "name", "texts", "options", "answer"),
    [
        ("/classify", "labels", [*ODD, "old dogs " * 300], {}, lambda pipe, texts: pipe(texts)),
        ("/fill", "fill", [f"{text} [MASK]" for text in ODD], {"k": 3}, lambda pipe, texts: pipe(texts, k=3)),
        ("/embed", "vectors", [*ODD, "old dogs " * 300], {}, lambda pipe, texts: pipe(texts).tolist()),
        ("/translate", "marian", ODD, {"beam": 2}, lambda pipe, texts: pipe(texts, beam=2)),
        (
            *("/generate", "text", [*ODD, "old dogs ran zq" * 60], {"max_tokens": 9, "seed": 3}),
            lambda pipe, texts: pipe(texts, max_tokens=9, seed=3),
        ),
    ],
)
def test_every_verb_answers_odd_texts_as_the_pipeline_does(server, models, path, name, texts, options, answer):
    with warnings.catch_warnings(action="ignore"):  # of such texts
        expected = answer(headway.load(models[name]), texts)
    found = server.post(path, {"model": name, "inputs": texts, **options}).json()["answers"]
    assert close(found, expected)
    with ThreadPoolExecutor(4) as pool:  # each alone, beside the others
        asked = pool.map(lambda text: server.post(path, {"model": name, "inputs": [text], **options}).json(), texts)
        assert close([one["answers"][0] for one in asked], expected)


def test_pictures_come_as_base64_and_never_by_name(server, models):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(3).integers(0, 256, (14, 14, 3), dtype=np.uint8)
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "png")
    body = {"model": "pictures", "inputs": [base64.b64encode(file.getvalue()).decode()]}
    assert close(server.post("/classify", body).json()["answers"], headway.load(models["pictures"])([pixels]))
    for name in (str(models["pictures"] / "config.json"), base64.b64encode(b"no picture").decode()):
        assert server.post("/classify", {**body, "inputs": [name]}).status_code == 400


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/classify", {"model": "labels", "inputs": []}, 400, "inputs"),
        ("/fill", {"inputs": "the cat"}, 400, "inputs"),
        ("/fill", {"inputs": ["the cat"]}, 400, "inputs"),
        ("/fill", {"inputs": ["a [MASK]"], "k": 0}, 400, "k"),
        ("/fill", {"inputs": ["a [MASK]"], "k": 10**9}, 400, "k"),
        ("/fill", {"inputs": ["a [MASK]"], "other": 1}, 400, "other"),
        ("/fill", {}, 400, "inputs"),
        ("/fill", {"inputs": ["a [MASK]", 3]}, 400, "inputs[1]"),
        ("/fill", {"inputs": ["a [MASK]"] * 257}, 400, "inputs"),
        ("/fill", {"model": "labels", "inputs": ["a"]}, 400, "model"),
        ("/fill", {"model": "none", "inputs": ["a"]}, 404, "model"),
        ("/predict", {"inputs": ["a"]}, 400, "model"),
        ("/translate", {"inputs": ["a"], "beam": 17}, 400, "beam"),
        ("/translate", {"inputs": ["a"], "n_best": 7}, 400, "n_best"),
        ("/translate", {"inputs": ["a"], "target_language": "xx"}, 400, "inputs"),
        ("/generate", {"model": "text", "inputs": ["a"], "max_tokens": 10**6}, 400, "max_tokens"),
        ("/generate", {"model": "text", "inputs": ["a"], "temperature": -1}, 400, "temperature"),
        ("/generate", {"model": "text", "inputs": ["a"], "seed": -1}, 400, "seed"),
        ("/generate", {"model": "text", "inputs": ["a"], "chat": True}, 400, "chat"),
        ("/nothing", {"inputs": ["a"]}, 404, None),
    ],
)  # fmt: skip
def test_bad_input_is_one_error_that_names_the_field(server, path, body, status, param):
    found = server.post(path, body)
    assert (found.status_code, found.json()["error"]["param"]) == (status, param), found.text
    assert set(found.json()["error"]) == {"message", "type", "param", "code"}


def test_the_document_has_every_route(server):
    paths = server.get("/openapi.json").json()["paths"]
    verbs = {"/generate", "/classify", "/fill", "/embed", "/translate", "/predict"}
    assert verbs | {"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/health", "/metrics"} <= set(paths)
    assert "k" in paths["/fill"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/classify", {"model": "labels", "inputs": ["the cat", "", "日本"]}),
        ("/fill", {"inputs": ["the [MASK] sat", "a [MASK] on a [MASK]"], "k": 2}),
        ("/translate", {"inputs": ["the cat", " "], "beam": 2}),
        ("/translate", {"inputs": ["the cat", " "], "beam": 2, "scores": True, "alignment": True}),
        ("/translate", {"inputs": ["the cat"], "beam": 2, "n_best": 2}),
        ("/embed", {"inputs": ["the cat", "a"]}),
        ("/embed", {"inputs": ["the cat", "a"], "similarity": True}),
        ("/embed", {"inputs": ["the cat", "a"], "nearest": "mat"}),
        ("/generate", {"model": "text", "inputs": ["the cat"], "max_tokens": 3}),
    ],
)
def test_answers_have_the_fields_and_types_that_the_document_names(server, path, body):
    described = server.get("/openapi.json").json()["paths"][path]["post"]["responses"]["200"]["content"]
    schema = closed(described["application/json"]["schema"]["properties"]["answers"])
    answers = server.post(path, body).json()["answers"]
    validator = pytest.importorskip("jsonschema_rs").validator_for(schema)
    assert validator.is_valid(answers), [str(error) for error in validator.iter_errors(answers)]
    assert not validator.is_valid([{"none": 1}]) and not validator.is_valid([None])


def test_a_task_of_another_package_is_served(tmp_path):
    """Without a line of the server's code that knows it."""
    site = tmp_path / "site"
    about = site / "stars-0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stars\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[headway.tasks]\nstars = own_task\n")
    (site / "own_task.py").write_text((ROOT / "examples" / "own_task.py").read_text())
    rows = [f"{'great' if number % 2 else 'awful'} cat {number},{5 if number % 2 else 1}" for number in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,stars", *rows]) + "\n")
    run, places = tmp_path / "rated", os.pathsep.join([str(ROOT / "src"), str(site)])
    words = ["train", tmp_path / "rows.csv", "--task", "stars", "--steps", "3", "--threads", "1"]
    words += ["--out", run, "--quiet"]
    env = {**os.environ, "PYTHONPATH": places}
    subprocess.run([sys.executable, "-m", "headway", *map(str, words)], check=True, env=env, timeout=300)
    done = subprocess.run(
        [sys.executable, "-m", "headway", "predict", str(run), "great cat", "awful", "--json"],
        check=True, env=env, timeout=300, capture_output=True, text=True,
    )  # fmt: skip
    with Server(run, "--quiet", env={"PYTHONPATH": places}) as server:
        found = server.post("/rate", {"inputs": ["great cat", "awful"]}).json()
        assert close(found["answers"], json.loads(done.stdout)["results"])
        listed = server.get("/v1/models").json()["data"]
        assert [(one["task"], one["kind"], one["route"]) for one in listed] == [("stars", "number", "/rate")]
        assert "/rate" in server.get("/openapi.json").json()["paths"]


def test_the_module_of_the_library_needs_no_server():
    code = "import sys, headway; print([one for one in sys.modules if one in ('fastapi', 'uvicorn', 'starlette')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]" and Path(headway.__file__).exists()
