"""The same rows by every way to answer them: equal labels, and scores within 1e-4."""

import math
import random

import pytest
from ways import WAYS, pipeline

import headway
from headway.integrations.batch import Batch

DRAW = random.Random(0)
WORDS = ["great", "good", "lovely", "bad", "awful", "poor", "lamp", "lid", "case", "screen"]
TEXTS = [" ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 12))) for _ in range(997)]
ODD = [None, "", "🙂"]
TINY = {"steps": 30, "d_model": 32, "layers": 1, "heads": 2, "threads": 1, "quiet": True}


def rows(target, name):
    """Texts with a target, which is that of the number of kind words among two."""
    made = [(DRAW.choice(WORDS[:6]), DRAW.choice(WORDS[:6]), DRAW.choice(WORDS[6:])) for _ in range(300)]
    kind = [sum(word in WORDS[:3] for word in words) for words in made]
    return [{"text": " ".join(words), name: target(one)} for words, one in zip(made, kind, strict=True)]


RUNS = {
    "classification": lambda: rows(lambda kind: "bad good"[4 * (kind > 0) :][:4].strip(), "label"),
    "regression": lambda: rows(lambda kind: 100 * kind + DRAW.random(), "price"),
    "multi_label": lambda: rows(lambda kind: ["none", "some", "some;all"][kind], "tags"),
}


@pytest.fixture(scope="module", params=RUNS)
def run(request, tmp_path_factory):
    place = tmp_path_factory.mktemp(request.param) / "run"
    headway.train(RUNS[request.param](), task=request.param, out=place, **TINY)
    return place


@pytest.fixture(scope="module")
def expected(run):
    return pipeline(run, TEXTS + ODD)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_answers(way, run, expected):
    texts = TEXTS if way == "onnx" else TEXTS + ODD
    found = WAYS[way](run, texts)
    assert len(found) == len(texts)
    differs = [at for at, (one, other) in enumerate(zip(found, expected, strict=False)) if not same(one, other)]
    assert not differs, f"{texts[differs[0]]!r}: {found[differs[0]]}, expected {expected[differs[0]]}"
    if way != "onnx":
        assert {name for row in expected for name in row} <= set(found[0])


def same(found, wanted):
    """Whether the columns that both have are equal, and what is wanted to be missing is."""
    return all(_equal(value, wanted.get(name)) for name, value in found.items() if name not in OF_THE_ROW)


OF_THE_ROW = ("text", "number", "score", "known")
"""Columns that not every way has."""


def _equal(one, other):
    one, other = (None if value == "" or value != value else value for value in (one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-4)
    return one == other


def test_there_are_answers_that_differ(expected):
    """Else the comparison would say nothing."""
    assert len({str(row) for row in expected}) > 100
    assert all(set(row.values()) <= {None, ""} for row in expected[-3:])


def test_a_batch_is_small_and_names_its_columns(run):
    import pickle

    answer = Batch(run)
    assert len(pickle.dumps(answer)) < 2000
    assert set(answer({"text": ["good lamp"]})) == {"text", *answer.types}
