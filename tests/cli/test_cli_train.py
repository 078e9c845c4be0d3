"""``--validation`` takes every word up to the next option, and leaves the inputs that follow it alone where it must."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.api import default_out
from headway.cli.train import repeated


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a b --validation c d --time 5m", "a b --validation c --validation d --time 5m"),
        ("--validation c --json a", "--validation c --json a"),
        ("a --validation c --validation d e", "a --validation c --validation d --validation e"),
        ("a b --validation=c d --json", "a b --validation c --validation d --json"),
        ("a", "a"),
    ],
)
def test_words_of_one_option(given: str, expected: str):
    assert repeated(given.split(), "--validation") == expected.split()


def test_two_files_to_validate_on(tmp_path: Path, in_process: Callable):
    for name in ("t", "v"):
        for side in ("en", "de"):
            lines = [f"the {word} {i}\n" for i in range(23) for word in ("cat", "dog")]
            (tmp_path / f"{name}.{side}").write_text("".join(lines).upper() if side == "de" else "".join(lines))
    train, held_out = ([tmp_path / f"{name}.{side}" for side in ("en", "de")] for name in ("t", "v"))
    tiny = ("--d-model", 16, "--layers", 1, "--steps", 2, "--vocab", 280, "--threads", 1, "--quiet", "--json")
    assert (
        in_process.json("train", *train, "--validation", *held_out, "--out", tmp_path / "run", *tiny)["task"]
        == "translation"
    )
    facts = json.loads((tmp_path / "run" / "headway.json").read_text())
    assert facts["validation"] == [str(path) for path in held_out]
    assert facts["data"]["inputs"] == [str(path) for path in train]
    assert facts["data"]["validation"].startswith("46 pairs")


def test_the_input_may_follow_what_to_validate_on(rows: Path, tmp_path: Path, in_process: Callable):
    other = tmp_path / "other.csv"
    other.write_text("text,label\n" + "".join(f"great {i},pos\nbad {i},neg\n" for i in range(7)))
    tiny = ("--d-model", 16, "--layers", 1, "--steps", 2, "--threads", 1, "--quiet", "--json")
    in_process.passed("train", "--out", tmp_path / "run", *tiny, "--validation", other, rows)
    facts = json.loads((tmp_path / "run" / "headway.json").read_text())
    assert (facts["validation"], facts["data"]["inputs"]) == ([str(other)], [str(rows)])


def test_what_to_train_on_stands_before_several_files_to_validate_on(rows: Path, in_process: Callable):
    in_process.refused("train", "--validation", rows, rows, rows, rows, said="--validation takes every word after it")


def test_quiet_keeps_what_looks_wrong(tmp_path: Path, in_process: Callable):
    pairs = "".join(f"the cat {i}\tdie Katze {i}\n" for i in range(40)) + "half\t\n"
    (tmp_path / "pairs.tsv").write_text(f"en\tde\n{pairs}")
    tiny = ("--d-model", 16, "--layers", 1, "--steps", 2, "--threads", 1)
    _, _, err = in_process("train", tmp_path / "pairs.tsv", "--out", tmp_path / "run", *tiny, "--quiet")
    lines = [line for line in err.splitlines() if "cut off" not in line]
    assert lines == ["warning: left out because one side is empty: 1 (row 42)"]


def test_a_run_is_called_after_both_sides():
    assert default_out(["data/train.en", "data/train.de"]) == Path("runs/train.en-de")
    assert default_out(["en.txt.gz", "de.txt.gz"]) == Path("runs/en-de")
    assert default_out(["reviews.csv"]) == Path("runs/reviews")
    assert default_out(["one.txt", "two.txt"]) == Path("runs/one")


def test_balanced_classes_are_both_right_with_the_default_smoothing(tmp_path: Path, in_process: Callable):
    draw = random.Random(7)

    def rows(*counts: int) -> str:
        words = ["the", "lamp", "was", "on", "a", "table", "by", "our", "door", "and", "it", "is"]
        lines = [
            f"{' '.join(draw.choices(words, k=6))} {told} {draw.choice(words)},{told}\n"
            for told, n in zip(("great", "awful"), counts, strict=True)
            for _ in range(n)
        ]
        return "text,label\n" + "".join(draw.sample(lines, len(lines)))

    (tmp_path / "rare.csv").write_text(rows(400, 10))
    (tmp_path / "new.csv").write_text(rows(50, 50))
    words = ("--steps", 80, "--balance", "--threads", 1, "--quiet", "--json")
    in_process.passed("train", tmp_path / "rare.csv", "--out", tmp_path / "run", *words)
    _, out, _ = in_process("evaluate", tmp_path / "run", tmp_path / "new.csv", "--json")
    assert json.loads(out.splitlines()[-1])["accuracy"] > 0.95
