"""A run that begins from another one holds out, and measures, nothing that the other was trained on."""

import csv
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.data.records.repeats import text_hashes
from headway.errors import InputError
from headway.training.store.contents import BEFORE, TEXTS, known_texts, read_texts
from headway.training.store.facts import read_facts
from headway.workflows.evaluate import evaluate

TINY = {"threads": 1, "precision": "float32", "quiet": True, "steps": 1, "evaluations": 1}
SMALL = {**TINY, "d_model": 16, "layers": 1}
WORDS = ["cat", "mat", "dog", "door", "red", "old", "sang", "ran", "past", "bell"]


def text(draw: random.Random) -> str:
    return " ".join([*draw.choices(WORDS, k=5), str(draw.randrange(10**6))])


def labelled(path: Path, count: int = 200, seed: int = 0) -> Path:
    draw = random.Random(seed)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *([text(draw), draw.choice("ab")] for _ in range(count))])
    return path


def pairs(path: Path, *columns: str) -> Path:
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *([text(draw), text(draw)] for _ in range(200))])
    return path


def tagged(path: Path) -> Path:
    draw = random.Random(0)
    rows = [[(word, "B-X" if word == "cat" else "O") for word in text(draw).split()] for _ in range(200)]
    path.write_text("\n\n".join("\n".join("\t".join(pair) for pair in row) for row in rows) + "\n")
    return path


def talks(path: Path) -> Path:
    draw = random.Random(0)
    talk = [[{"role": role, "content": text(draw)} for role in ("user", "assistant")] for _ in range(200)]
    path.write_text("".join(json.dumps({"messages": one}) + "\n" for one in talk))
    return path


def images(path: Path) -> Path:
    draw = np.random.default_rng(0)
    np.savez(path, images=draw.integers(0, 255, (200, 8, 8), dtype=np.uint8), labels=draw.integers(0, 2, 200))
    return path


DATA = {
    "classification": lambda folder: labelled(folder / "rows.csv"),
    "image_classification": lambda folder: images(folder / "images.npz"),
    "token_classification": lambda folder: tagged(folder / "tags.conll"),
    "embedding": lambda folder: pairs(folder / "pairs.csv", "one", "other"),
    "translation": lambda folder: pairs(folder / "pairs.csv", "source", "target"),
    "dialogue": lambda folder: talks(folder / "talks.jsonl"),
}


def trained(run: Path) -> tuple[np.ndarray, np.ndarray]:
    """What a run was trained on, and what the runs before it were."""
    facts, found = read_facts(run) or {}, read_texts(run)
    return found[facts["task"]], found[BEFORE + facts["task"]]


@pytest.mark.parametrize("task", list(DATA))
def test_no_held_out_row_was_trained_on_by_the_base(task: str, tmp_path: Path, capsys: pytest.CaptureFixture):
    data, options = DATA[task](tmp_path), dict(SMALL, task=task)
    first = headway.train(data, out=tmp_path / "first", seed=1, **options)
    again = {**TINY, "task": task, "from_model": str(tmp_path / "first")}
    found = headway.train(data, out=tmp_path / "second", seed=2, **again)
    one, before = trained(tmp_path / "first")
    two, before_two = trained(tmp_path / "second")
    assert len(before) == 0
    assert np.array_equal(before_two, one)
    assert len(one) + 20 == 200 and np.isin(one, two).all()  # its held-out rows are held out again
    facts = read_facts(tmp_path / "second") or {}
    assert facts["data"]["rows"]["known"] == 180
    assert any(line.startswith("180 of 200 rows were trained on before") for line in facts["data"]["warnings"])
    assert evaluate(tmp_path / "second")["val_loss"] == pytest.approx(found["val_loss"], abs=1e-5)
    assert evaluate(tmp_path / "first")["val_loss"] == pytest.approx(first["val_loss"], abs=1e-5)
    shutil.copytree(tmp_path / "first", tmp_path / "before")
    (tmp_path / "before" / TEXTS).unlink()  # as earlier versions left it
    headway.train(data, out=tmp_path / "third", seed=3, **{**again, "from_model": str(tmp_path / "before")})
    assert np.array_equal(trained(tmp_path / "third")[0], one)


def test_a_chain_and_other_data(tmp_path: Path):
    """The third run knows what the first was trained on; rows that are new are held out by the seed."""
    first, second = labelled(tmp_path / "first.csv"), labelled(tmp_path / "second.csv", 100, 1)
    both = tmp_path / "both.csv"
    both.write_text(first.read_text() + "".join(second.read_text().splitlines(True)[1:]))
    headway.train(first, out=tmp_path / "a", **SMALL)
    headway.train(second, out=tmp_path / "b", from_model=str(tmp_path / "a"), **TINY)
    headway.train(both, out=tmp_path / "c", from_model=str(tmp_path / "b"), seed=5, **TINY)
    known = np.concatenate([trained(tmp_path / name)[0] for name in "ab"])
    texts = [row[0] for row in csv.reader(both.open())][1:]
    held_out = np.setdiff1d(text_hashes(texts), trained(tmp_path / "c")[0])
    assert len(held_out) == 30 and not np.isin(held_out, known).any()
    assert known_texts(tmp_path / "c")["classification"].tolist() == sorted(set(text_hashes(texts)) - set(held_out))
    with pytest.warns(UserWarning, match="180 of 200 rows also occur in the training data"):
        evaluate(tmp_path / "b", [first])  # which only its base was trained on


def test_validation_rows_that_are_known_are_not_measured(tmp_path: Path, in_process: Callable):
    first, second = labelled(tmp_path / "first.csv"), labelled(tmp_path / "second.csv", 100, 1)
    headway.train(first, out=tmp_path / "a", **SMALL)
    words = ("--from", tmp_path / "a", "--validation", first, "--steps", "1", "--threads", "1")
    status, _, err = in_process("train", second, "--out", tmp_path / "b", *words)
    assert status == 0 and "180 of 200 rows were trained on before and are not measured" in err
    assert "180 known to the base, 100 trained on, 20 held out, 20 measured" in err
    status, out, err = in_process("evaluate", tmp_path / "b", "--json")
    assert status == 0 and json.loads(out)["examples"] == 20
    found = read_facts(tmp_path / "b") or {}
    assert json.loads(out)["val_loss"] == pytest.approx(found["metrics"]["val_loss"], abs=1e-5)


def test_too_few_rows_are_left(tmp_path: Path):
    data, other = labelled(tmp_path / "rows.csv"), labelled(tmp_path / "other.csv", 100, 1)
    headway.train(data, out=tmp_path / "a", validation=other, **SMALL)
    with pytest.raises(InputError, match=r"200 of 200 rows were trained on by .*too few to measure on"):
        headway.train(data, out=tmp_path / "b", from_model=str(tmp_path / "a"), **TINY)
    assert headway.train(data, out=tmp_path / "c", validation=other, from_model=str(tmp_path / "a"), **TINY)


def test_a_run_that_says_nothing_about_other_data(tmp_path: Path, in_process: Callable):
    data, other = labelled(tmp_path / "rows.csv"), labelled(tmp_path / "other.csv", 100, 1)
    headway.train(data, out=tmp_path / "a", **SMALL)
    (tmp_path / "a" / TEXTS).unlink()
    words = ("--from", tmp_path / "a", "--steps", "1", "--threads", "1", "--out", tmp_path / "b")
    status, _, err = in_process("train", other, *words)
    assert status == 0 and "does not say what it was trained on" in err


def test_it_is_cleaned_with_the_checkpoints_and_never_exported(tmp_path: Path, in_process: Callable):
    data, run = labelled(tmp_path / "rows.csv"), tmp_path / "a"
    headway.train(data, out=run, **SMALL)
    assert (run / TEXTS).stat().st_size < 180 * 8 + 300
    assert in_process("export", run, "--to", "hf", "--out", tmp_path / "export")[0] == 0
    assert not list((tmp_path / "export").rglob(TEXTS))
    assert in_process("clean", run)[0] == 0 and (run / TEXTS).is_file()
    again = headway.train(data, out=tmp_path / "b", from_model=str(run), **TINY)
    assert in_process("clean", run, "--checkpoints")[0] == 0 and not (run / TEXTS).exists()
    assert evaluate(run)["examples"] == 20  # by its seed
    assert in_process("clean", tmp_path / "b", "--checkpoints")[0] == 0 and again
    with pytest.raises(InputError, match="not known which rows it held out"):
        evaluate(tmp_path / "b")


def test_seeds_and_a_comparison_hold_out_the_same_new_rows(tmp_path: Path, in_process: Callable):
    data, run = labelled(tmp_path / "rows.csv"), tmp_path / "a"
    headway.train(data, out=run, **SMALL)
    headway.train(data, out=tmp_path / "seeds", seeds=2, seed=7, from_model=str(run), **TINY)
    for name in (".", "seed-7", "seed-8"):
        assert np.array_equal(trained(tmp_path / "seeds" / name)[0], trained(run)[0])
    headway.train(data, out=tmp_path / "bow", model="bow", known_to=str(run), seed=9, **TINY)
    assert np.array_equal(trained(tmp_path / "bow")[0], trained(run)[0])


@pytest.mark.parametrize("task", ["language_modeling", "masked_lm"])
def test_running_text(task: str, corpus: Path, tmp_path: Path, in_process: Callable):
    """The end of the same text is held out again; of another one it is said that nothing is known."""
    options = {**SMALL, "task": task, "length": 16}
    headway.train(corpus, out=tmp_path / "a", **options)
    other = tmp_path / "other.txt"
    other.write_text(corpus.read_text() + "the end\n")
    words = ("--task", task, "--from", tmp_path / "a", "--steps", "1", "--threads", "1", "--length", "16")
    line = "may have been trained on the held-out text"
    assert line not in in_process("train", corpus, *words, "--out", tmp_path / "b")[2]
    assert line in in_process("train", other, *words, "--out", tmp_path / "c")[2]


def test_one_count_of_rows(tmp_path: Path, in_process: Callable):
    """Rows that are read, left out, trained on, held out and measured: the same in every message."""
    data, lines = tmp_path / "rows.csv", labelled(tmp_path / "whole.csv", 300).read_text().splitlines()
    lines[5], lines[9], lines[200] = ",a", "some text,", " ,b"
    data.write_text("\n".join([*lines[:150], lines[20], *lines[150:]]) + "\n")
    skip = ("--on-bad-row", "skip", "--threads", "1")
    small = ("--steps", "9", "--d-model", "16", "--layers", "1")
    status, _, err = in_process("train", data, "--out", tmp_path / "a", *skip, *small)
    facts = read_facts(tmp_path / "a") or {}
    counts = {"read": 301, "skipped": 3, "known": 0, "trained": 268, "held_out": 30, "measured": 30}
    assert status == 0 and facts["data"]["rows"] == counts
    line = "rows: 301 read, 3 left out, 268 trained on, 30 held out, 30 measured"
    assert line in err
    status, out, _ = in_process("evaluate", tmp_path / "a")
    assert status == 0 and "rows: 301 read, 3 left out, 30 held out, 30 measured" in out
    other = tmp_path / "other.csv"
    other.write_text("\n".join(lines[:100]) + "\n")
    status, out, _ = in_process("evaluate", tmp_path / "a", other)
    assert status == 0 and "rows: 99 read, 2 left out, 97 measured" in out and "held-out" not in out
    assert "268 trained on" in (tmp_path / "a" / "report.html").read_text()


def test_rows_that_there_was_no_time_for_are_not_counted(tmp_path: Path):
    data = labelled(tmp_path / "rows.csv", 300)
    headway.train(data, out=tmp_path / "a", batch_size=4, **SMALL)  # one step
    facts = read_facts(tmp_path / "a") or {}
    assert facts["data"]["rows"]["trained"] == 4 and facts["data"]["train"] == "4 of 270 rows"


def test_a_text_that_a_run_was_trained_on_is_named_where_it_is_measured(tmp_path: Path):
    draw = random.Random(0)
    for name in ("train", "other"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{text(draw)}\n" for _ in range(200)))
    headway.train(tmp_path / "train.txt", validation=tmp_path / "other.txt", out=tmp_path / "run", **SMALL)
    with pytest.warns(UserWarning, match=r"train\.txt: the run was trained on all of this text"):
        evaluate(tmp_path / "run", tmp_path / "train.txt")
