"""Of a small table so few rows are held out that they say nothing: it is judged by cross-validation, or not at all."""

import csv
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bases import WORDS, make_base
from faults_harness import facts_of

import headway
from headway.cli.main import main
from headway.tasks import fitting
from headway.tasks.fitting import cross_validated
from headway.workflows.evaluate import evaluate

TINY = {"d_model": 16, "layers": 1, "heads": 2, "threads": 1, "precision": "float32", "steps": 4}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base("bert", tmp_path_factory.mktemp("base") / "bert")


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch: pytest.MonkeyPatch):
    """Three repeats say what ten do."""
    monkeypatch.setattr(fitting, "REPEATS", 3)
    monkeypatch.setattr(fitting, "FOLDS", 5)


def table(path: Path, count: int, *, told: bool) -> Path:
    """Rows of words, half of each label, which the words tell or not."""
    choose = random.Random(4)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for i in range(count):
            words = [*choose.choices(WORDS, k=9), *([("good", "bad")[i % 2]] * 3 if told else [])]
            writer.writerow([" ".join(words), ("positive", "negative")[i % 2]])
    return path


def run(*words: object, capfd: pytest.CaptureFixture) -> str:
    main(list(map(str, words)))
    return capfd.readouterr().out


@pytest.mark.parametrize("told", [True, False])
def test_from_scratch_it_is_not_judged_and_nothing_is_advised(told: bool, tmp_path: Path, capfd: pytest.CaptureFixture):
    data = table(tmp_path / "few.csv", 16, told=told)
    options = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", value)]
    out = run("train", data, "--out", tmp_path / "run", *options, capfd=capfd)
    assert "Not judged: 2 held-out rows are too few to compare the Transformer" in out
    assert "beats the Transformer" not in out and "use that baseline" not in out and "Transformer beats" not in out
    assert "accuracy" in out and "(95 % interval 0." in out.splitlines()[0], "the figure itself has its interval"
    assert "-fold cross-validation over all 16 rows, accuracy: majority class 0.50" in out
    assert ("linear model beats the majority class" in out) == told
    facts = facts_of(tmp_path / "run")
    assert facts["verdict"]["result"] == "too few" and facts["cross_validation"]["rows"] == 16
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Not judged: 2 held-out rows" in page, "the report says what the terminal says"


def test_with_a_base_the_classifier_of_its_vectors_is_repeated(base: Path, tmp_path: Path):
    data = table(tmp_path / "few.csv", 24, told=True)
    headway.train(data, out=tmp_path / "run", from_model=str(base), threads=1, quiet=True)
    found = facts_of(tmp_path / "run")
    assert found["verdict"]["result"] == "too few"
    cross = found["cross_validation"]
    assert [line["name"] for line in cross["models"]] == [
        "majority class",
        "linear model",
        "pretrained vectors before tuning",
    ]
    assert cross["difference"]["of"] == "pretrained vectors before tuning" and cross["folds"] == 5
    for line in cross["models"]:
        assert line["interval"][0] <= line["accuracy"] <= line["interval"][1]
        assert line["interval"][1] - line["interval"][0] > 0.1, "24 rows are not certain"


def test_a_larger_table_is_judged_by_what_it_holds_out(tmp_path: Path):
    headway.train(table(tmp_path / "more.csv", 400, told=True), out=tmp_path / "run", quiet=True, **TINY)
    found = facts_of(tmp_path / "run")
    assert found["cross_validation"] is None
    assert found["verdict"]["units"] == 40 and found["verdict"]["unit"] == "rows" and found["verdict"]["paired"]


def test_rows_that_are_certain_for_all_are_certain_for_none():
    texts = [f"{word} {i}" for i, word in enumerate(["good", "bad"] * 8)]
    found: Any = cross_validated(texts, [0, 1] * 8, {})
    majority, linear = found["models"]
    assert majority["accuracy"] == 0.5 and linear["accuracy"] == 1.0
    assert linear["interval"][0] < 0.85 and linear["interval"][1] == 1.0
    assert found["difference"]["of"] == "linear model" and found["difference"]["interval"][0] > 0
    assert cross_validated(texts, [0, 1] * 8, {}) == found, "it is the same each time"


def test_without_anything_to_learn_no_model_is_better():
    texts = [f"{word} {i}" for i, word in enumerate(["good"] * 16)]
    found: Any = cross_validated(texts, [0, 1] * 8, {})
    low, high = found["difference"]["interval"]
    assert low < 0 < high


def test_equal_texts_are_on_one_side_and_single_ones_are_not_judged():
    seen: list[tuple[set[str], set[str]]] = []
    texts = [f"text {i // 2}" for i in range(20)]

    def guess(train: np.ndarray, rest: np.ndarray) -> np.ndarray:
        seen.append(({texts[i] for i in train}, {texts[i] for i in rest}))
        return np.zeros(len(rest))

    assert cross_validated(texts, [i // 10 for i in range(20)], {"mine": guess}) is not None
    assert seen and all(not (one & other) for one, other in seen)
    assert cross_validated(["a", "b", "c"], [0, 0, 1], {}) is None


def test_evaluate_on_other_rows_compares_with_the_baselines_there(tmp_path: Path, capfd: pytest.CaptureFixture):
    data, other = table(tmp_path / "few.csv", 60, told=True), table(tmp_path / "other.csv", 101, told=True)
    headway.train(data, out=tmp_path / "run", quiet=True, **{**TINY, "learning_rate": 1e-9})
    out = run("evaluate", tmp_path / "run", other, capfd=capfd)
    assert "accuracy: 95 % interval" in out
    assert "The linear model baseline beats the Transformer: accuracy 1.00 against 0." in out
    found = evaluate(tmp_path / "run", [str(other)])
    assert found["verdict"]["result"] == "worse" and found["verdict"]["units"] == 101 and found["verdict"]["paired"]
