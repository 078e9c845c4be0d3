"""Every printed interval contains the figure beside it and names its metric: on small runs, as users see them."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from headway.cli.main import headway as command

SMALL = ["--steps", "12", "--d-model", "16", "--layers", "1", "--heads", "2", "--evaluations", "3", "--threads", "1"]
NUMBER = r"(-?[\d.]+)"


def headway(*words: Any) -> str:
    found = CliRunner().invoke(command, [str(word) for word in words])
    assert found.exit_code == 0, found.output + found.stderr
    return found.output + found.stderr


def rows(path: Path, count: int = 400) -> Path:
    draw = np.random.default_rng(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(count):
            good = number % 2
            right = draw.random() < 0.8
            writer.writerow([f"row {number} {'good fine' if good == right else 'bad poor'}", "up" if good else "down"])
    return path


def holds(low: float, value: float, high: float, places: float = 0.006) -> bool:
    return low - places <= value <= high + places


def checked(text: str) -> int:
    """How many printed intervals a text has; each stands behind a figure of its own, which it contains."""
    figure = rf"(accuracy|entity_f1|chrf|roc_auc|val_loss|spearman) {NUMBER} \(95 % interval {NUMBER} to {NUMBER}\)"
    apart = rf"difference of {NUMBER} \(95 % interval {NUMBER} to {NUMBER}"
    lower = rf"accuracy is lower by {NUMBER} \(95 % interval {NUMBER} to {NUMBER}\)"
    gained = rf"from {NUMBER} to {NUMBER} \(gain in ([a-z1 ]+): 95 % interval {NUMBER} to {NUMBER}\)"
    named = rf"(accuracy|chrf|roc_auc|val_loss): 95 % interval {NUMBER} to {NUMBER}"
    crossed = rf"[a-z] (0\.\d\d) \(95 % interval {NUMBER} to {NUMBER}\)"
    difference = rf"\(95 % interval {NUMBER} to {NUMBER} of the difference\)"
    known = 0
    for pattern in (figure, apart, lower, crossed):
        for found in re.findall(pattern, text):
            value, low, high = (float(one) for one in found[-3:])
            assert holds(low, value, high), (pattern, found)
            known += 1
    for before, after, metric, low, high in re.findall(gained, text):
        sign = -1 if metric == "validation loss" else 1
        assert holds(float(low), sign * (float(after) - float(before)), float(high)), text
        known += 1
    known += len(re.findall(named, text)) + len(re.findall(difference, text))
    overlap = len([one for one in re.findall(figure, text) if re.fullmatch(r"0\.\d\d", one[1])])
    assert known - overlap >= text.count("95 % interval"), f"an interval without a figure: {text}"
    return known


def test_of_a_classifier_its_continuation_and_its_evaluation(tmp_path: Path):
    file, out = rows(tmp_path / "rows.csv"), tmp_path / "run"
    assert checked(headway("train", file, "--out", out, *SMALL)) >= 2
    assert checked(headway("evaluate", out)) >= 2
    again = headway("train", file, "--out", out, "--more-steps", "24", "--threads", "1")
    kept = json.loads((out / "headway.json").read_text())["kept"]
    assert checked(again) >= 2
    if kept["gained"]:
        assert kept["gain_of"][0] == "accuracy" and "gain in accuracy: 95 % interval" in again
        assert holds(kept["gain"][0], kept["gain_of"][2] - kept["gain_of"][1], kept["gain"][1])
    facts = json.loads((out / "headway.json").read_text())["verdict"]
    assert facts["interval"][0] <= facts["value"] <= facts["interval"][1]
    assert facts["difference_interval"][0] <= facts["difference"] <= facts["difference_interval"][1]
    page = re.sub(r"<[^>]+>", " ", (out / "report.html").read_text())
    assert "95 % interval" in page


def test_of_a_bag_of_words(tmp_path: Path):
    file, out = rows(tmp_path / "rows.csv"), tmp_path / "run"
    said = headway("train", file, "--out", out, "--model", "bow", *SMALL[:4], *SMALL[-4:])
    assert "bag of words" in said and "Transformer" not in said and checked(said) >= 2
    assert "bag of words" in headway("evaluate", out)
    assert "Transformer (this run)" not in (out / "report.html").read_text()


def test_of_questions_and_their_answers(tmp_path: Path):
    """Not a translation: the written answers are compared with one answer for all and with the nearest question's."""
    pytest.importorskip("sacrebleu")
    topics = ["refund", "delivery", "password", "invoice"]
    with (tmp_path / "faq.csv").open("w") as file:
        file.write("question,answer\n")
        for number in range(400):
            topic = topics[number % 4]
            file.write(f"where is my {topic} {number}?,to sort out your {topic} open settings\n")
    out = tmp_path / "run"
    columns = ["--text-column", "question", "--second-column", "answer"]
    said = headway("train", tmp_path / "faq.csv", "--task", "translation", *columns, "--out", out, *SMALL)
    names = [line["name"] for line in json.loads((out / "headway.json").read_text())["baselines"]]
    assert {"the commonest target", "the target of the nearest source (TF-IDF)"} <= set(names)
    assert "accuracy of each next token given the true beginning" in said and checked(said) >= 1
    assert "with --task embedding" in said
    assert "the nearest source" in headway("evaluate", out).lower()


def test_rows_that_differ_by_unknown_words_alone_are_not_called_leaked(tmp_path: Path):
    with (tmp_path / "rows.csv").open("w") as file:
        file.write("text,label\n")
        for number in range(400):
            kind = "good fine" if number % 2 else "bad poor"
            file.write(f"please do look at {kind} name{number},{number % 2}\n")
    out = tmp_path / "run"
    words = ["--tokenizer", "word", "--vocab", "20", "--label-column", "label"]
    said = headway("train", tmp_path / "rows.csv", "--task", "classification", *words, "--out", out, *SMALL)
    assert "occur in the training data" not in said + (out / "log.jsonl").read_text()
