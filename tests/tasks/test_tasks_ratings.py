"""A level on a scale for each text: learnt with its order, measured as answered, saved, and read by others."""

import random

import numpy as np
import pandas as pd
import pytest
import torch
from faults_harness import facts_of
from rows_kit import TINY, answered, by_label, check_refused, check_verified, heads, others_answer, table, trained

import headway
from headway.errors import InputError
from headway.tasks.ratings.recognise import level
from headway.tasks.ratings.task import OrderedLevels
from headway.training.evaluation.intervals import quadratic_kappa

GOOD, BAD = ["great", "lovely", "superb", "fine"], ["awful", "broken", "slow", "poor"]
TEXTS = ["great lovely superb fine room", "awful broken slow poor room", "great lovely slow poor room"]


def reviews(path, write=str, count=300, **changed):
    """Reviews with four words each: as many stars as good ones, and one."""
    draw, rows = random.Random(0), []
    for number in range(count):
        good = draw.randint(0, 4)
        words = draw.sample(GOOD, good) + draw.sample(BAD, 4 - good)
        draw.shuffle(words)
        rows.append({"review": f"{' '.join(words)} room {number}", "stars": write(good + 1)})
    return table(path, rows, **changed)


@pytest.fixture(scope="module")
def stars(tmp_path_factory):
    return reviews(tmp_path_factory.mktemp("rows") / "rows.csv", count=500)


@pytest.fixture(scope="module")
def run(stars, tmp_path_factory):
    return trained(stars, tmp_path_factory.mktemp("rated"), steps=200)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(("4", 4), ("4.0", 4), ("3,5 stars", 3.5), ("1 star", 1), ("4/5", 4), ("7 out of 10", 7), ("★★★", 3)),
        *(("★★☆☆☆", 2), ("****", 4), ("⭐️⭐️", 2), ("★½☆☆☆", 1.5), ("★★½", 2.5), ("4 out of 5 stars", 4)),
    ],
)
def test_levels_are_read_as_people_write_them(written, value):
    assert level(written) == value


def test_what_is_no_level_is_none():
    assert np.isnan([level(cell) for cell in ("", "good", "6 stars", "4/7", "nan", "☆☆☆☆☆")]).all()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1/10", "2/10", "3/10"], "are out of 10, and those of the model out of 5"),
        (["4/5", "3/10", "1/5"], "are out of 5 and out of 10"),
        (["4/5", "8", "1/5"], "holds '8', which is no value for ratings"),
    ],
)
def test_levels_out_of_another_maximum_are_refused(cells, said, tmp_path):
    rows = pd.DataFrame({"text": [f"room {n}" for n in range(60)], "stars": [f"{1 + n % 5}/5" for n in range(60)]})
    headway.train(rows, out=tmp_path / "run", **TINY, steps=1)
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


def test_what_is_measured_is_what_answers_and_beats_the_baselines(run, stars):
    facts, again, pipe = facts_of(run), headway.evaluate(run), headway.load(run)
    for key in ("quadratic_kappa", "accuracy", "macro_f1", "val_loss"):
        assert again[key] == pytest.approx(facts["metrics"][key], abs=1e-6), key
    assert facts["task"] == pipe.task == "ratings" and again["quadratic_kappa"] > 0.9
    names = [line["name"].split(" on ")[0] for line in facts["baselines"]]
    assert names == ["most frequent level", "median level", "linear model"]
    best, worst, middle = pipe(TEXTS)
    assert (best["label"], worst["label"]) == ("5", "1") and list(best["scores"]) == list("12345")
    assert worst["value"] < middle["value"] < best["value"]
    assert best["value"] == pytest.approx(sum(float(label) * score for label, score in best["scores"].items()))
    with pytest.warns(UserWarning, match="no token that the model knows"):
        assert pipe("qqq") == {"label": None, "value": None, "scores": {}}
    assert headway.evaluate(run, stars)["accuracy"] == pytest.approx(again["accuracy"])


def test_the_command_answers(run, tmp_path, in_process):
    first, second = in_process.passed("predict", run, *TEXTS[:2])[0].splitlines()
    assert first.startswith("5\t") and second.startswith("1\t")
    found = answered(in_process, "classify", run, reviews(tmp_path / "rows.csv", count=9), tmp_path / "answers.csv")
    scores = [f"score: {number}" for number in range(1, 6)]
    assert list(found[0]) == ["text", "label", "value", *scores, "known", "review", "stars"] and len(found) == 9
    assert sum(row["label"] == row["stars"] for row in found) >= 7


def test_others_read_the_same(run, tmp_path):
    for one, other in zip(
        headway.load(run)(TEXTS), others_answer(run, tmp_path / "hf", TEXTS, top_k=None), strict=True
    ):
        assert by_label(other) == pytest.approx(one["scores"], abs=1e-4)


@pytest.mark.thorough
def test_verify_passes(run, in_process):
    check_verified(run, in_process)


def test_from_a_pretrained_model_and_from_its_own_run(run, stars, classifier_run, tmp_path):
    found = heads(stars, [classifier_run, run], tmp_path)
    assert found == ["a new one, which starts untrained", f"the one of {run}, with its 5 classes"]


def test_levels_in_stars_are_learnt_as_numbers(tmp_path):
    headway.train(reviews(tmp_path / "a.csv", lambda n: "★" * n), out=tmp_path / "run", steps=2, **TINY)
    assert headway.load(tmp_path / "run").labels == list("12345")
    assert headway.evaluate(tmp_path / "run", reviews(tmp_path / "b.csv", lambda n: f"{n} / 5"))["examples"] == 300


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"stars": "many"}, "'many', which is no value for ratings"),
        ({"stars": "0"}, "holds '0', which is no value for ratings: a level is a number or stars, and"),
        ({"stars": "6"}, "and one of 1 to 5 where nearly all are (row 9)"),
        ({"write": lambda n: "4"}, "column 'stars' holds one level only"),
        ({"stars": ""}, "1 row has no label"),
        ({"stars": "7/10", "write": lambda n: f"{n}/5"}, "'stars': ratings are out of 5 and out of 10"),
    ],
)
def test_bad_levels_are_one_message(changed, said, tmp_path):
    check_refused(reviews(tmp_path / "rows.csv", **changed), said, tmp_path / "run", task="ratings")


@pytest.mark.parametrize("cell", ["0", "6", "five", "★★★½?", "n/a", ""])
def test_bad_levels_can_be_skipped(cell, run, tmp_path):
    data = reviews(tmp_path / "rows.csv", stars=cell)
    headway.train(data, out=tmp_path / "run", steps=1, on_bad_row="skip", **TINY)
    facts = facts_of(tmp_path / "run")
    assert facts["task"] == "ratings" and facts["labels"] == ["1", "2", "3", "4", "5"]
    assert headway.evaluate(run, data, on_bad_row="skip")["examples"] == 299


def test_a_level_that_was_never_learnt_is_named(run, tmp_path):
    with pytest.raises(InputError, match=r"'6', .*: the model's are 1, 2, 3, 4, 5 \(row 9\)"):
        headway.evaluate(run, reviews(tmp_path / "rows.csv", stars="6"))
