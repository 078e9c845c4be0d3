"""A level on a scale for each text: learnt with its order, measured as answered, saved, and read by others."""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import headway
from headway.errors import InputError
from headway.tasks.ratings.recognise import level
from headway.tasks.ratings.task import OrderedLevels
from headway.training.evaluation.intervals import quadratic_kappa
from headway.workflows.export import export

GOOD, BAD = ["great", "lovely", "superb", "fine"], ["awful", "broken", "slow", "poor"]
TINY: dict[str, Any] = {"d_model": 32, "layers": 1, "heads": 2, "threads": 1, "quiet": True, "layout": "bert"}
TEXTS = ["great lovely superb fine room", "awful broken slow poor room", "great lovely slow poor room"]


def reviews(path: Path, write: Callable[[int], str] = str, count: int = 300, **changed: str) -> Path:
    """Reviews with four words each: as many stars as good ones, and one."""
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["review", "stars"])
        writer.writeheader()
        for number in range(count):
            good = draw.randint(0, 4)
            words = draw.sample(GOOD, good) + draw.sample(BAD, 4 - good)
            draw.shuffle(words)
            row = {"review": f"{' '.join(words)} room {number}", "stars": write(good + 1)}
            writer.writerow(row | (changed if number == 7 else {}))
    return path


@pytest.fixture(scope="module")
def stars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reviews(tmp_path_factory.mktemp("rows") / "rows.csv", count=500)


@pytest.fixture(scope="module")
def run(stars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; look, but do not write."""
    out = tmp_path_factory.mktemp("runs") / "rated"
    headway.train(stars, out=out, steps=200, learning_rate=3e-3, **TINY)
    return out


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(("4", 4), ("4.0", 4), ("3,5 stars", 3.5), ("1 star", 1), ("4/5", 4), ("7 out of 10", 7), ("★★★", 3)),
        *(("★★☆☆☆", 2), ("****", 4), ("⭐️⭐️", 2), ("★½☆☆☆", 1.5), ("★★½", 2.5), ("4 out of 5 stars", 4)),
    ],
)
def test_levels_are_read_as_people_write_them(written: str, value: float):
    assert level(written) == value


def test_what_is_no_level_is_none():
    assert np.isnan([level(cell) for cell in ("", "good", "6 stars", "4/7", "nan", "☆☆☆☆☆")]).all()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1/10", "2/10", "3/10"], "ratings are out of 10, and those of the model out of 5"),
        (["4/5", "3/10", "1/5"], "ratings are out of 5 and out of 10; write all out of one of these"),
        (["4/5", "8", "1/5"], "holds '8', which is no value for ratings"),
    ],
)
def test_levels_out_of_another_maximum_are_refused(cells: list[str], said: str, tmp_path: Path):
    rows = pd.DataFrame({"text": [f"room {n}" for n in range(60)], "stars": [f"{1 + n % 5}/5" for n in range(60)]})
    headway.train(rows, out=tmp_path / "run", **{**TINY, "steps": 1})
    other = pd.DataFrame({"text": [f"house {n}" for n in range(30)], "stars": cells * 10})
    with pytest.raises(InputError, match=said):
        headway.evaluate(tmp_path / "run", other)


def test_kappa_is_that_of_scikit_learn_and_the_loss_knows_the_order():
    metrics = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(0)
    wanted, guesses = draw.integers(0, 5, 60), draw.integers(0, 5, 60)
    expected = metrics.cohen_kappa_score(wanted, guesses, weights="quadratic")
    assert quadratic_kappa(wanted, guesses, [1, 2, 3, 4, 5]) == pytest.approx(expected)
    assert quadratic_kappa(np.zeros(3, int), np.zeros(3, int), [1, 2]) is None
    loss, sure = OrderedLevels(list("12345")), 9 * torch.eye(5)
    each = loss.losses(sure, torch.tensor([4.0] * 5))  # guesses 1, 2, 3, 4, 5 where 5 is right
    assert (each[:-1] > each[1:]).all() and each[-1] < 0.01


def test_what_is_measured_is_what_answers_and_beats_the_baselines(run: Path, stars: Path):
    facts, again, pipe = json.loads((run / "headway.json").read_text()), headway.evaluate(run), headway.load(run)
    for key in ("quadratic_kappa", "accuracy", "macro_f1", "val_loss"):
        assert again[key] == pytest.approx(facts["metrics"][key], abs=1e-6), key
    assert facts["task"] == pipe.task == "ratings" and again["quadratic_kappa"] > 0.9
    assert [line["name"].split(" on ")[0] for line in facts["baselines"]] == [
        "most frequent level",
        "median level",
        "linear model",
    ]
    best, worst, middle = pipe(TEXTS)
    assert (best["label"], worst["label"]) == ("5", "1") and list(best["scores"]) == list("12345")
    assert worst["value"] < middle["value"] < best["value"]
    assert best["value"] == pytest.approx(sum(float(label) * score for label, score in best["scores"].items()))
    with pytest.warns(UserWarning, match="no token that the model knows"):
        assert pipe("qqq") == {"label": None, "value": None, "scores": {}}
    assert headway.evaluate(run, stars)["accuracy"] == pytest.approx(again["accuracy"])


def test_the_command_answers(run: Path, tmp_path: Path, in_process: Callable):
    status, out, _ = in_process("predict", run, *TEXTS[:2])
    first, second = out.splitlines()
    assert status == 0 and first.startswith("5\t") and second.startswith("1\t")
    file, to = reviews(tmp_path / "rows.csv", count=9), tmp_path / "answers.csv"
    status, _, err = in_process("classify", run, file, "--to", to)
    assert status == 0, err
    with to.open(newline="") as lines:
        table = list(csv.DictReader(lines))
    scores = [f"score: {number}" for number in range(1, 6)]
    assert list(table[0]) == ["text", "label", "value", *scores, "known", "review", "stars"] and len(table) == 9
    assert sum(row["label"] == row["stars"] for row in table) >= 7


def test_others_read_the_same(run: Path, tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    written = export(run, tmp_path / "hf")
    assert written.parity.passed, written.parity.problem
    ours = headway.load(run)(TEXTS)
    theirs = transformers.pipeline("text-classification", str(tmp_path / "hf"), device="cpu")(TEXTS, top_k=None)
    for one, other in zip(ours, theirs, strict=True):
        assert {found["label"]: found["score"] for found in other} == pytest.approx(one["scores"], abs=1e-4)


@pytest.mark.thorough
def test_verify_passes(run: Path, in_process: Callable):
    status, out, err = in_process("verify", run, "--json", "--quiet", "--threads", "1")
    checks = {check["name"]: check["passed"] for check in json.loads(out.splitlines()[-1])["checks"]}
    assert status == 0 and all(checks[name] for name in ("batch", "accumulation", "export", "checkpoints", "resume")), (
        err
    )


def test_from_a_pretrained_model_and_from_its_own_run(run: Path, stars: Path, classifier_run: Path, tmp_path: Path):
    few = {"steps": 4, "threads": 1, "quiet": True}
    headway.train(stars, from_model=str(classifier_run), out=tmp_path / "new", **few)
    headway.train(stars, from_model=str(run), out=tmp_path / "on", **few)
    heads = []
    for name in ("new", "on"):
        facts = json.loads((tmp_path / name / "headway.json").read_text())
        heads += [one["value"] for one in facts["decisions"] if one["what"] == "head"]
    assert heads == ["a new one, which starts untrained", f"the one of {run}, with its 5 classes"]


def test_levels_in_stars_are_learnt_as_numbers(tmp_path: Path):
    headway.train(reviews(tmp_path / "a.csv", lambda n: "★" * n), out=tmp_path / "run", steps=2, **TINY)
    assert headway.load(tmp_path / "run").labels == list("12345")
    assert headway.evaluate(tmp_path / "run", reviews(tmp_path / "b.csv", lambda n: f"{n} / 5"))["examples"] == 300


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "words": ({"stars": "many"}, "'many', which is no value for ratings: a level is a number or stars"),
    "a 0": ({"stars": "0"}, "holds '0', which is no value for ratings: a level is a number or stars, and"),
    "a 6": ({"stars": "6"}, "and one of 1 to 5 where nearly all are (row 9)"),
    "one level": ({"write": lambda n: "4"}, "column 'stars' holds one level only"),
    "a hole": ({"stars": ""}, "1 row has no label"),
    "two scales": (
        {"stars": "7/10", "write": lambda n: f"{n}/5"},
        "column 'stars': ratings are out of 5 and out of 10",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_levels_are_one_message(what: str, tmp_path: Path):
    changed, said = WRONG[what]
    with pytest.raises(InputError) as raised:
        headway.train(reviews(tmp_path / "rows.csv", **changed), task="ratings", out=tmp_path / "run", steps=1, **TINY)
    assert said in str(raised.value) and not (tmp_path / "run").exists()


@pytest.mark.parametrize("cell", ["0", "6", "five", "★★★½?", "n/a", ""])
def test_bad_levels_can_be_skipped(cell: str, run: Path, tmp_path: Path):
    data = reviews(tmp_path / "rows.csv", stars=cell)
    headway.train(data, out=tmp_path / "run", steps=1, on_bad_row="skip", **TINY)
    facts = json.loads((tmp_path / "run" / "headway.json").read_text())
    assert facts["task"] == "ratings" and facts["labels"] == ["1", "2", "3", "4", "5"]
    assert headway.evaluate(run, data, on_bad_row="skip")["examples"] == 299


def test_a_level_that_was_never_learnt_is_named(run: Path, tmp_path: Path):
    with pytest.raises(
        InputError, match=r"'6', which is no value for ratings: the model's are 1, 2, 3, 4, 5 \(row 9\)"
    ):
        headway.evaluate(run, reviews(tmp_path / "rows.csv", stars="6"))
