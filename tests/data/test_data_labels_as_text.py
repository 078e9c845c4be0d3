"""Labels that look like missing values or like equal numbers: refused by name, or classes with --labels-as-text."""

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.io.csv_text import as_csv

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]
WORDY = ["NA", "null", "n/a", "nan", "N/A", "None"]
NUMBERS = ["1.1", "1.10", "2", "02"]
IDS = ["9007199254740992", "9007199254740993"]


def write(path: Path, labels: list[str], count: int = 90, *, more: str = "") -> Path:
    draw = random.Random(1)
    rows = [[f"{' '.join(draw.choices(WORDS, k=6))} {i}", labels[i % len(labels)]] for i in range(count)]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": a, "label": b}) + "\n" for a, b in rows) + more)
    else:
        path.write_text(as_csv([["text", "label"], *rows]) + more)
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize(("labels", "message"), [(WORDY, "'NA' and 'null' and"), (NUMBERS, "'1.1' and '1.10'")])
def test_labels_as_text_are_classes_to_every_reader_of_the_run(
    labels: list[str], message: str, ending: str, tmp_path: Path, in_process: Callable, tiny_words: list[str]
):
    path, out = write(tmp_path / f"t.{ending}", labels), tmp_path / "run"
    words = ["train", path, "--task", "classification", "--label-column", "label", *tiny_words]
    status, _, err = in_process(*words, "--out", tmp_path / "refused")
    assert status == 2 and message in err and "--labels-as-text" in err, err
    words += ["--out", out, "--labels-as-text"]
    status, _, err = in_process(*words)
    assert status == 0, err
    facts = json.loads((out / "headway.json").read_text())
    assert set(facts["labels"]) == set(labels) and sum(facts["data"]["classes"].values()) == 90
    assert facts["options"]["labels_as_text"] is True and "merged_labels" not in facts["data"]
    for inputs in ([], [path]):
        status, found, err = in_process("evaluate", out, *inputs, "--json")
        assert status == 0 and json.loads(found)["accuracy"] == facts["metrics"]["accuracy"], err
    other = write(tmp_path / f"other.{ending}", labels, 31)
    status, found, err = in_process("evaluate", out, other, "--json")
    assert status == 0 and json.loads(found)["examples"] == 31, err
    status, found, err = in_process("classify", out, other, "--json")
    assert status == 0 and {one["label"] for one in json.loads(found)["results"]} <= set(labels)
    assert in_process(*words)[0] == 0  # complete, with the option
    status, _, err = in_process(*words[:-1])
    assert status == 2 and "--labels-as-text" in err


def test_an_empty_cell_stays_a_missing_label(tmp_path: Path, in_process: Callable, tiny_words: list[str]):
    path = write(tmp_path / "t.csv", ["NA", "yes"], more="no label here,\nnor here,  \n")
    words = ["train", path, "--out", tmp_path / "run", "--labels-as-text", *tiny_words]
    status, _, err = in_process(*words)
    assert status == 2 and "2 rows have no label in column 'label' (rows 92, 93)" in err and "as-text" not in err
    status, _, err = in_process(*words, "--on-bad-row", "skip")
    assert status == 0 and "2 rows without text or label left out (rows 92, 93)" in err, err


def test_skipping_names_the_values_that_it_skips(tmp_path: Path, in_process: Callable, tiny_words: list[str]):
    path = write(tmp_path / "t.csv", ["no", "yes"], more="one,n/a\ntwo,NA\n")
    words = ["train", path, "--out", tmp_path / "run", *tiny_words, "--on-bad-row", "skip"]
    status, _, err = in_process(*words)
    assert status == 0 and "(rows 92, 93); 'n/a' and 'NA' there is read as no label without --labels-as-text" in err


def test_ids_above_2_53_are_different_numbers(tmp_path: Path, in_process: Callable, tiny_words: list[str]):
    words = ["train", write(tmp_path / "t.csv", IDS), "--label-column", "label", "--out", tmp_path / "run", *tiny_words]
    status, _, err = in_process(*words, "--task", "classification", "--plan")
    assert status == 0, err


def test_numbers_and_texts_of_json_lines_are_told_apart(tmp_path: Path, in_process: Callable, tiny_words: list[str]):
    mixed = write(tmp_path / "mixed.jsonl", ["1", "2"], more='{"text": "a number", "label": 1}\n')
    words = ["--task", "classification", "--label-column", "label", "--labels-as-text", *tiny_words, "--plan"]
    status, _, err = in_process("train", mixed, *words)
    assert status == 2 and "line 91: 'label' is a number ('1'), expected a string as in line 1" in err
    rows = [{"text": f"row {i} {i % 7}", "label": 1 if i % 2 else 1.0} for i in range(60)]
    path = tmp_path / "numbers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"text": "none", "label": null}\n')
    status, _, err = in_process("train", path, *words)
    assert status == 2 and "1 row has no label in column 'label' (line 61)" in err
    status, _, err = in_process("train", path, *words, "--on-bad-row", "skip")
    assert status == 0, err


def test_python_takes_the_option_too(tmp_path: Path, tiny: dict[str, int]):
    draw = random.Random(3)
    texts = [f"{' '.join(draw.choices(WORDS, k=7))} {i}" for i in range(60)]
    rows = [{"text": text, "label": ["NA", "null", "yes"][i % 3]} for i, text in enumerate(texts)]
    with pytest.raises(headway.InputError, match=r"'NA' and 'null' there is read as no label.*--labels-as-text"):
        headway.train(rows, out=tmp_path / "no", quiet=True, **tiny)
    run = tmp_path / "run"
    headway.train(rows, out=run, quiet=True, labels_as_text=True, **tiny)
    assert headway.load(run, task="classification").labels == ["NA", "null", "yes"]
    assert headway.evaluate(run, rows[:20])["examples"] == 20
    assert headway.evaluate(run, rows[:20], labels_as_text=True, merge_labels="all")["examples"] == 20


def test_a_pair_says_what_a_word_for_missing_means(tmp_path: Path, in_process: Callable, tiny_words: list[str]):
    path, pairs = write(tmp_path / "t.csv", ["n/a", "yes", "NA"]), tmp_path / "pairs.csv"
    pairs.write_text("found,meant\nn/a,unknown\n")
    words = ["train", path, "--merge-labels", pairs, "--out", tmp_path / "run", *tiny_words]
    status, _, err = in_process(*words)
    assert status == 2 and "30 rows have no label" in err and "; 'NA' there is read as no label" in err
    pairs.write_text("found,meant\nn/a,unknown\nNA,unknown\n")
    status, _, err = in_process(*words)
    assert status == 0 and "'n/a' (30) as 'unknown'" in err, err
    assert json.loads((tmp_path / "run" / "headway.json").read_text())["labels"] == ["unknown", "yes"]
    assert in_process("evaluate", tmp_path / "run", path)[0] == 0


def test_evaluate_merges_labels_that_training_did_not(
    tmp_path: Path, in_process: Callable, tiny_words: list[str], lm_run: Path, corpus: Path
):
    out = tmp_path / "run"
    status, _, err = in_process("train", write(tmp_path / "t.csv", ["negative", "positive"]), "--out", out, *tiny_words)
    assert status == 0, err
    other = write(tmp_path / "other.csv", ["POSITIVE", "positve", "Negative", " negative"], 60)
    status, _, err = in_process("evaluate", out, other)
    assert status == 2 and "labels that the model does not know" in err and "--merge-labels" in err
    status, found, err = in_process("evaluate", out, other, "--merge-labels", "all", "--json")
    assert status == 0 and json.loads(found)["examples"] == 60, err
    pairs = tmp_path / "pairs.json"
    pairs.write_text('{"POSITIVE": "positive", "positve": "positive", "Negative": "negative"}')
    status, found, err = in_process("evaluate", out, other, "--merge-labels", pairs, "--json")
    assert status == 0 and json.loads(found)["examples"] == 60, err
    for option in (["--merge-labels", "all"], ["--labels-as-text"]):
        status, _, err = in_process("evaluate", lm_run, corpus, *option)
        assert status == 2 and f"{option[0]} is for classification" in err


TEXTS = ["a\rb", "\rstart", "end\r", "a\r\nb", "a\nb", 'say "hi"', "a,b", "tab\tbed", "line\u2028sep", "a\x0bb", "x"]


def test_answers_in_csv_are_read_again_exactly(tmp_path: Path, in_process: Callable, classifier_run: Path):
    path, to, again = tmp_path / "in.jsonl", tmp_path / "answers.csv", tmp_path / "again.csv"
    path.write_text("".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(TEXTS)))
    status, _, err = in_process("classify", classifier_run, path, "--to", to)
    assert status == 0, err
    status, _, err = in_process("classify", classifier_run, to, "--to", again)
    assert status == 0, err
    for file in (to, again):
        with file.open(encoding="utf-8", newline="") as rows:
            assert [row["text"] for row in csv.DictReader(rows)] == TEXTS


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_csv_text_is_what_the_csv_module_reads(delimiter: str):
    draw, letters = random.Random(5), "ab\r\n\t,;\"' \x0b\x85\u2028é😀"
    rows = [["".join(draw.choices(letters, k=draw.randint(0, 9))) for _ in range(3)] for _ in range(500)]
    text = as_csv(rows, delimiter)
    assert list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)) == rows
    assert text.endswith("\n") and not text.endswith("\r\n")
