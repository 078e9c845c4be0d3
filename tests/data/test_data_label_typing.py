"""Labels that differ only in typing: said in one line, joined where that is asked for, by every reader of a run."""

import csv
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.data.records.label_typing import Merging, groups, merging, read_pairs, recorded, suggestion, typing_key
from headway.errors import InputError

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]
POSITIVE = ["Positive", "POSITIVE", "positive", "positive "]
NEGATIVE = ["negative", "Negative", "NEGATIVE"]


def test_typing_is_case_blank_space_and_how_letters_are_encoded():
    assert len({typing_key(one) for one in ("Café  au lait", "CAFE\u0301 au\u00a0lait", "café au lait\u200b")}) == 1
    assert typing_key("STRASSE") == typing_key("Straße") and typing_key("a b") != typing_key("ab")
    assert typing_key("²") != typing_key("2") and typing_key("resume") != typing_key("resumé")


def test_what_would_be_one_class():
    counts = {"positive": 90, "Positive": 40, "POSITIVE": 3, "postive": 2, "negative": 80, "negatvie": 1, "neutral": 9}
    assert groups(counts) == {"positive": ["Positive", "POSITIVE", "postive"], "negative": ["negatvie"]}
    (line,) = suggestion(counts)
    assert "\n" not in line and "7 classes, which would be 3 with --merge-labels all" in line
    assert "'positive' for 'Positive' (40), 'POSITIVE' (3), 'postive' (2); 'negative' for 'negatvie' (1)" in line
    assert suggestion({"good": 4, "bad": 9}) == []


@pytest.mark.parametrize(
    "counts",
    [
        {"version1": 50, "version2": 1},
        {"room 101": 50, "room 110": 2},
        {"good": 50, "goof": 1},
        {"cats": 50, "cat": 1},
        {"employee": 50, "employer": 40},
        {"employee": 400, "employer": 41},
        {"employee": 6, "employer": 4},
        {"typical": 50, "atypical": 1},
        {"increase": 50, "decrease": 1},
        {"grapes": 50, "grades": 50, "graces": 2},
        {"1": 50, "2": 1, "10": 3},
        {"complaint": 50, "compliment": 1},
        {"東京都新宿区": 50, "大阪府大阪市": 1},
    ],
)
def test_other_labels_are_left_in_peace(counts: dict[str, int]):
    assert groups(counts) == {}


def test_groups_of_random_labels_hold():
    """Whatever the labels: each is in one group at most, no class means another, digits agree, joining is complete."""
    for seed in range(300):
        draw = random.Random(seed)
        base = ["".join(draw.choices("abcdeé", k=draw.randint(1, 9))) + draw.choice(["", "1", " 2"]) for _ in range(8)]
        typed = [draw.choice([str.upper, str.title, str.lower, lambda t: t[:-1], lambda t: f" {t}"])(t) for t in base]
        counts = {label.strip(): draw.choice([1, 2, 9, 30, 400]) for label in base + typed if label.strip()}
        found = groups(counts)
        joined = [label for others in found.values() for label in others]
        assert len(joined) == len(set(joined)) and not set(joined) & set(found)
        for meant, others in found.items():
            for other in others:
                digits = ["".join(filter(str.isdigit, one)) for one in (meant, other)]
                assert digits[0] == digits[1]
        merged = merging("all", counts)
        assert merged is not None
        after = Counter(merged.merged(list(counts)))
        assert len({typing_key(label) for label in after}) == len(after)
        assert merged.merged(list(after)) == list(after)


def test_many_labels_are_compared_in_a_moment():
    draw = random.Random(1)
    counts = {f"label of things {''.join(draw.choices('abcdefgh', k=12))}": 1 + i % 50 for i in range(20_000)}
    assert isinstance(groups(counts), dict)


FILES = {
    "pairs.csv": "found,meant\nPOSITIVE,positive\npostive ,positive\n",
    "pairs.tsv": "meant\tfound\npositive\tPOSITIVE\npositive\tpostive\n",
    "pairs.jsonl": '{"found": "POSITIVE", "meant": "positive"}\n{"found": "postive", "meant": "positive"}\n',
    "object.json": '{"POSITIVE": "positive", "postive": "positive"}',
    "list.json": '[["POSITIVE", "positive"], ["postive", "positive"]]',
    "objects.json": '[{"found": "POSITIVE", "meant": "positive"}, {"found": "postive", "meant": "positive"}]',
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_pairs(name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_text(FILES[name])
    assert read_pairs(path) == {"POSITIVE": "positive", "postive": "positive"}


BAD = {
    "other.csv": ("from,to\na,b\n", "expected .all., or a"),
    "text.txt": ("hello\n", "expected .all., or a"),
    "two.csv": ("found,meant\na,b\na,c\n", "stands for two labels"),
    "chain.csv": ("found,meant\na,b\nb,c\n", "means 'b', which means 'c'"),
    "empty.csv": ("found,meant\na,\n", "needs the label that it means"),
    "number.json": ('{"a": 1}', "needs the label that it means"),
    "flat.json": ("[1, 2]", "expected pairs such as"),
    "word.json": ('"all"', "expected pairs such as"),
    "broken.json": ("{", r"broken\.json"),
    "none.json": ("{}", "no pairs"),
    "strange.csv": ("found,meant\nx,y\n", "none of the labels found in it"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_of_pairs_are_refused(name: str, tmp_path: Path):
    path = tmp_path / name
    content, message = BAD[name]
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        merging(str(path), {"a": 3, "b": 4})
    with pytest.raises(InputError, match="there is no such file"):
        merging(str(tmp_path / "missing.csv"), {"a": 1})


def test_what_a_damaged_record_says_is_not_followed():
    for data in (None, [], {"merged_labels": 3}, {"merged_labels": {"pairs": []}}):
        assert recorded({"data": data}) is None
    assert recorded({"data": {"merged_labels": {"pairs": {"a": 1, "b": "c"}}}}) == Merging({"b": "c"})


def write(path: Path, count: int, seed: int, more: tuple[list[str], list[str]] = (POSITIVE, NEGATIVE)) -> Path:
    draw = random.Random(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for i in range(count):
            good = i % 3 > 0
            words = [*draw.choices(WORDS, k=7), draw.choice(["great", "fine"] if good else ["awful", "sad"]), str(i)]
            label = "postive" if i == 7 else draw.choice(more[0] if good else more[1])
            writer.writerow([" ".join(words), label])
    return path


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("typed") / "typed.csv", 131, 3)


def test_a_run_joins_labels_and_every_reader_follows_it(
    typed: Path, tmp_path: Path, in_process: Callable, tiny: dict[str, Any], tiny_words: list[str]
):
    out = tmp_path / "run"
    status, _, err = in_process("train", typed, "--out", out, *tiny_words)
    lines = [line for line in err.splitlines() if "differ only in typing" in line]
    assert status == 0 and len(lines) == 1 and "7 classes, which would be 2 with --merge-labels all" in lines[0]
    assert any("whitespace around labels" in line for line in err.splitlines())
    status, _, err = in_process("train", typed, "--out", out, "--merge-labels", "all", *tiny_words)
    assert status == 2 and "--merge-labels not given (now all)" in err

    out = tmp_path / "merged"
    words = ["train", typed, "--out", out, "--merge-labels", "all", *tiny_words]
    status, _, err = in_process(*words)
    assert status == 0 and "labels joined in" in err and "differ only in typing" not in err
    facts = json.loads((out / "headway.json").read_text())
    assert len(facts["labels"]) == 2 and sum(facts["data"]["classes"].values()) == 131
    assert in_process(*words)[0] == 0  # complete
    status, found, err = in_process("evaluate", out, "--json")
    assert status == 0 and json.loads(found)["accuracy"] == facts["metrics"]["accuracy"], err
    other = write(tmp_path / "other.csv", 41, 5, (["PositivE", "POSITIVE"], ["NeGative"]))  # never typed so in training
    status, found, err = in_process("evaluate", out, other, "--json")
    assert status == 0 and json.loads(found)["examples"] == 41, err
    status, found, err = in_process("classify", out, other, "--json")
    assert {one["label"] for one in json.loads(found)["results"]} <= set(facts["labels"])


def test_pairs_of_a_file_are_joined_and_must_stay_as_they_were(
    typed: Path, tmp_path: Path, in_process: Callable, tiny_words: list[str]
):
    pairs, out = tmp_path / "pairs.csv", tmp_path / "run"
    upper = "".join(f"{one},{one.strip().lower()}\n" for one in ("Positive", "POSITIVE", "Negative", "NEGATIVE"))
    pairs.write_text(f"found,meant\n{upper}postive,positive\n")
    words = ["train", typed, "--out", out, "--merge-labels", pairs, *tiny_words]
    validation = write(tmp_path / "validation.csv", 31, 9)
    status, _, err = in_process(*words, "--validation", validation)
    assert status == 0, err
    assert json.loads((out / "headway.json").read_text())["labels"] == ["negative", "positive"]
    assert in_process("evaluate", out, validation)[0] == 0
    pairs.write_text("found,meant\nPOSITIVE,positive\n")
    longer = [*words[: words.index("--steps")], "--steps", "25", *words[words.index("--steps") + 2 :]]
    status, _, err = in_process(*longer, "--validation", validation, "--allow-changes")
    assert status == 2 and "the pairs of --merge-labels have changed" in err


def test_it_is_for_classes_alone(corpus: Path, tmp_path: Path, in_process: Callable):
    status, _, err = in_process("train", corpus, "--out", tmp_path / "run", "--merge-labels", "all", "--steps", "5")
    assert status == 2 and "--merge-labels is for classification" in err
