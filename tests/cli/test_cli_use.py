"""The verbs as a user runs them: results, files, pipes, statuses."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

import headway
from headway.training.loop.trainer import Diverged
from headway.training.option_fields import flag
from headway.training.options import OPTIONS

METRICS = ["val_loss", "bits_per_byte", "perplexity", "accuracy", "macro_f1", "bleu", "chrf"]
TRAIN = ["task", "seconds", "out", "parameters", "steps", "tokens", "train_loss", *METRICS, "tokens_per_second"]
ANSWERED = {"task", "precision", "engine", "seconds", "results"}
TEXTS = ["the cat sat, lovely", "", 'she said "old dogs"', "two\nlines, one text", "  spaces  ", "é 日本 🙂", "awful"]


def last_line(out: str) -> dict:
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("data", ["corpus", "rows"])
def test_train_ends_with_one_object_and_says_everything_else_elsewhere(
    data: str, request: pytest.FixtureRequest, tmp_path: Path, tiny_words: list[str], in_process: Callable
):
    source = request.getfixturevalue(data)
    status, out, err = in_process("train", source, "--out", tmp_path / "run", "--json", *tiny_words)
    found = last_line(out)
    assert status == 0 and out.count("\n") == 1
    assert set(found) == {*TRAIN, "baselines"}
    assert found["out"] == str(tmp_path / "run") and found["steps"] == 20 and found["seconds"] > 0
    names = {"corpus": ["val_loss", "bits_per_byte", "perplexity"], "rows": ["val_loss", "accuracy", "macro_f1"]}
    assert [name for name in METRICS if found[name] is not None] == names[data]
    assert "held out" in err and "--tokenizer" in err and "--preset" in err
    again = in_process("train", source, "--out", tmp_path / "run", "--json", "--quiet", *tiny_words)
    assert again[0] == 0 and again[2] == ""
    assert last_line(again[1]) == found


def test_without_json_a_person_reads_what_came_out(corpus: Path, tmp_path: Path, tiny_words: list[str], in_process):
    status, out, err = in_process("train", corpus, "--out", tmp_path / "run", "--quiet", *tiny_words)
    assert status == 0 and err == ""
    assert "val_loss" in out and str(tmp_path / "run") in out and "headway generate" in out


def test_evaluate(lm_run: Path, classifier_run: Path, in_process: Callable):
    for run, task in ((lm_run, "language_modeling"), (classifier_run, "classification")):
        found = in_process.json("evaluate", run)
        assert set(found) == {"task", "precision", "engine", "seconds", "examples", *METRICS}
        assert found["task"] == task and found["examples"] > 0
    status, out, err = in_process("evaluate", classifier_run)
    assert status == 0 and "precision" in out and err == ""


def test_generate(lm_run: Path, in_process: Callable):
    options = ["--temperature", "0", "--max-tokens", "11"]
    found = in_process.json("generate", lm_run, "the cat", *options)
    expected = headway.load(lm_run)("the cat", temperature=0, max_tokens=11)
    assert found.keys() == ANSWERED and found["results"] == [expected]
    assert in_process.passed("generate", lm_run, "the cat", *options)[0] == f"the cat{expected}\n"


def test_generate_stops_where_it_is_told(lm_run: Path, in_process: Callable):
    options = ["--seed", "3", "--stop", "a", "--stop", "e"]
    assert not {"a", "e"} & set(in_process.json("generate", lm_run, "the cat", *options)["results"][0])


def test_classify_a_text(classifier_run: Path, in_process: Callable):
    found = in_process.json("classify", classifier_run, TEXTS[0])
    assert found.keys() == ANSWERED
    assert found["results"] == [headway.load(classifier_run)(TEXTS[0])]
    out, _ = in_process.passed("classify", classifier_run, TEXTS[0])
    assert out.split("\t")[0] == found["results"][0]["label"]


def test_standard_input(classifier_run: Path, lm_run: Path, headway_command: Callable):
    found = headway_command("classify", classifier_run, "-", "--json", stdin="\ufeffawful dogs\r\n\nlovely, é 日本\n")
    expected = headway.load(classifier_run)(["awful dogs", "", "lovely, é 日本"])
    assert [one["scores"] for one in last_line(found.stdout)["results"]] == [
        pytest.approx(one["scores"], abs=1e-5) for one in expected
    ]
    found = headway_command("generate", lm_run, "-", "--temperature", "0", "--max-tokens", "5", stdin="the cat")
    assert found.stdout == "the cat" + headway.load(lm_run)("the cat", temperature=0, max_tokens=5) + "\n"


def results(path: Path) -> list[dict]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file)) if path.suffix == ".csv" else [json.loads(line) for line in file]


@pytest.mark.parametrize("source", ["texts.csv", "texts.jsonl"])
@pytest.mark.parametrize("to", ["out.csv", "out.jsonl"])
def test_classify_a_file_in_order(source: str, to: str, classifier_run: Path, tmp_path: Path, in_process: Callable):
    given = tmp_path / source
    with given.open("w", encoding="utf-8", newline="") as file:
        if source.endswith("csv"):
            csv.writer(file).writerows([["id", "text"], *([str(i), text] for i, text in enumerate(TEXTS))])
        else:
            file.writelines(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(TEXTS))
    assert "7 results" in in_process.passed("classify", classifier_run, given, "--to", tmp_path / to)[0]
    found = results(tmp_path / to)
    expected = headway.load(classifier_run)(TEXTS)
    assert [row["text"] for row in found] == TEXTS
    assert [row["label"] or None for row in found] == [one["label"] for one in expected]
    for row, one in zip(found, expected, strict=True):
        scores = row["scores"] if "scores" in row else {label: float(row[f"score: {label}"]) for label in one["scores"]}
        assert scores == pytest.approx(one["scores"], abs=1e-5)


@pytest.mark.parametrize("to", ["out.csv", "out.jsonl"])
def test_what_else_a_table_says_stays_beside_the_answer(to: str, classifier_run: Path, tmp_path: Path, in_process):
    given = tmp_path / "given.csv"
    given.write_text("id,text,label\n7,great dogs,unsure\n8,awful cats,pos\n", encoding="utf-8")
    assert in_process("classify", classifier_run, given, "--to", tmp_path / to)[0] == 0
    found = results(tmp_path / to)
    expected = headway.load(classifier_run)(["great dogs", "awful cats"])
    assert [row["label"] for row in found] == [one["label"] for one in expected]
    assert [(row["id"], row["text"], row["given: label"]) for row in found] == [
        *(("7", "great dogs", "unsure"), ("8", "awful cats", "pos")),
    ]


def test_a_second_column_of_texts_that_is_the_same_in_some_rows_stays_in_its_place(
    classifier_run: Path, tmp_path: Path, in_process: Callable
):
    given = tmp_path / "given.csv"
    given.write_text("text,body,score: pos\ngreat dogs,great dogs,1\nold,awful cats,2\n", encoding="utf-8")
    to = tmp_path / "out.csv"
    assert in_process("classify", classifier_run, given, "--text-column", "body", "--to", to)[0] == 0
    found = results(to)
    assert [(row["text"], row["given: text"]) for row in found] == [("great dogs", "great dogs"), ("awful cats", "old")]
    assert [row["given: score: pos"] for row in found] == ["1", "2"]


def test_classify_plain_lines(classifier_run: Path, tmp_path: Path, in_process: Callable):
    (tmp_path / "lines.txt").write_text("great\n\nawful\u2028dogs\r\nold", encoding="utf-8", newline="")
    found = in_process.json("classify", classifier_run, tmp_path / "lines.txt")["results"]
    expected = headway.load(classifier_run)(["great", "", "awful\u2028dogs", "old"])
    assert [one["label"] for one in found] == [one["label"] for one in expected]


def test_results_replace_an_older_file_whole(classifier_run: Path, tmp_path: Path, in_process: Callable):
    (tmp_path / "out.csv").write_text("older, and much longer than what comes now\n" * 101)
    status, _, err = in_process("classify", classifier_run, "great", "--to", tmp_path / "out.csv")
    assert status == 0 and f"warning: {tmp_path}/out.csv: this file exists and will be replaced" in err
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_missing_folders_of_results_are_made(classifier_run: Path, tmp_path: Path, in_process: Callable):
    to = tmp_path / "no" / "where" / "out.csv"
    assert in_process("classify", classifier_run, "missing.csv", "--to", to)[0] == 2 and not any(tmp_path.iterdir())
    status, _, err = in_process("classify", classifier_run, "great", "--to", to)
    assert status == 0 and err == "" and len(to.read_text().splitlines()) == 2


def test_a_byte_order_mark_changes_nothing(rows: Path, tmp_path: Path, tiny_words: list[str], in_process: Callable):
    marked = tmp_path / "marked.csv"
    marked.write_bytes(b"\xef\xbb\xbf" + rows.read_bytes())
    found = in_process.json("train", marked, "--out", tmp_path / "run", *tiny_words)
    assert found["task"] == "classification"


def test_another_encoding(tmp_path: Path, tiny_words: list[str], in_process: Callable):
    (tmp_path / "latin.txt").write_bytes("le café est à côté\n".encode("latin-1") * 301)
    words = ["train", tmp_path / "latin.txt", "--encoding", "latin-1", "--tokenizer", "char", "--out", tmp_path / "run"]
    assert in_process(*words, *tiny_words)[0] == 0
    assert in_process("generate", tmp_path / "run", "à côté", "--max-tokens", "3")[0] == 0


def test_a_run_reads_each_file_in_its_own_encoding(
    rows: Path, tmp_path: Path, tiny_words: list[str], in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    text = rows.read_text().replace("the", "thé")
    assert "é" in text
    Path("old.csv").write_bytes(text.encode("utf-16"))
    Path("new.csv").write_text(text)
    Path("other.csv").write_bytes(text.encode("cp1252"))
    words = ("train", "old.csv", "--encoding", "utf-16", "--validation", "new.csv", "--out", "run", *tiny_words)
    status, _, said = in_process(*words)
    assert status == 0 and "new.csv: this file is UTF-8 and is read as UTF-8" in said
    measured, again = (in_process.json("evaluate", "run", name) for name in ("old.csv", "new.csv"))
    assert measured["val_loss"] == again["val_loss"]
    answers, again = (in_process.json("classify", "run", name) for name in ("old.csv", "new.csv"))
    assert answers["results"] == again["results"]
    for verb in ("evaluate", "classify"):
        in_process.refused(verb, "run", "other.csv", said="other.csv: this file is not UTF-16", lines=1)


def test_rows_that_are_left_out_are_said(
    rows: Path, tmp_path: Path, tiny_words: list[str], in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    lines = rows.read_text().splitlines()
    Path("rows.csv").write_text("\n".join([*lines[:4], "alone", *lines[4:]]))
    Path("more.csv").write_text("\n".join([*lines[:9], "a,b,c", *lines[9:]]))
    words = ("train", "rows.csv", "--on-bad-row", "skip", "--validation", "more.csv", "--out", "run", *tiny_words)
    status, _, said = in_process(*words)
    assert status == 0 and "more.csv: 1 malformed row left out (row 10: " in said
    assert "rows.csv: 1 malformed row left out (row 5: " in said
    recorded = json.loads(Path("run/headway.json").read_text())["data"]["warnings"]
    assert any("rows.csv: 1 malformed row left out (row 5: " in line for line in recorded)
    assert "more.csv: 1 malformed row left out (row 10: " in in_process("evaluate", "run", "more.csv")[2]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_few_rows_are_measured_by_the_columns_of_the_run(
    classifier_run: Path, rows: Path, tmp_path: Path, in_process: Callable, count: int
):
    head, *lines = rows.read_text().splitlines()
    for first in (head, "What was said,Sentiment"):
        (tmp_path / "few.csv").write_text("\n".join([first, *lines[:count]]))
        assert in_process.json("evaluate", classifier_run, tmp_path / "few.csv")["examples"] == count


def test_paths_with_spaces_and_letters_of_all_kinds_from_any_directory(
    corpus: Path, tmp_path: Path, tiny_words: list[str], in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    place = tmp_path / "mes données 日本 [x]"
    place.mkdir()
    (place / "le café.txt").write_bytes(corpus.read_bytes())
    monkeypatch.chdir(place)
    assert in_process("train", "le café.txt", *tiny_words)[0] == 0
    assert (place / "runs" / "le café" / "config.json").exists()
    monkeypatch.chdir(place / "runs")
    assert in_process("generate", "le café", "the", "--max-tokens", "3")[0] == 0
    assert in_process("evaluate", "le café", "../le café.txt", "--json")[0] == 0
    in_process.refused("evaluate", "le café", said="le café.txt: the training data of this run no longer exist")


def test_a_reader_that_leaves_is_no_error(lm_run: Path):
    command = [sys.executable, "-m", "headway", "generate", str(lm_run), "the", "--max-tokens", "397", "--seed", "3"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None and running.stderr is not None
    running.stdout.read(1)
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(30) == 0


def test_training_goes_on_when_nobody_reads_along(corpus: Path, tmp_path: Path, tiny_words: list[str]):
    command = [sys.executable, "-m", "headway", "train", str(corpus), "--out", str(tmp_path / "run"), *tiny_words]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert running.stderr is not None
    running.stderr.close()
    assert running.wait(60) == 0
    assert json.loads((tmp_path / "run" / "headway.json").read_text())["finished"]


@pytest.mark.parametrize(
    ("where", "error", "expected"),
    [
        ("headway.cli.train.train_run", Diverged("the gradient was not finite"), (1, "the gradient was not finite")),
        ("headway.workflows.train.check.read_input", KeyboardInterrupt(), (130, "interrupted")),
    ],
)
def test_what_goes_wrong_is_a_status_and_one_line(where, error, expected, corpus: Path, in_process, monkeypatch):
    monkeypatch.setattr(where, Mock(side_effect=error))
    status, out, err = in_process("train", corpus, "--steps", "2", "--quiet")
    assert (status, out, err.strip()) == (expected[0], "", f"headway: {expected[1]}")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["train", "--help"], ["classify", "--help"], ["--version"]])
def test_help_is_status_zero(words: list[str], in_process: Callable):
    status, out, err = in_process(*words)
    assert status == 0 and err == "" and "headway" in out


def test_every_option_of_train_has_help(in_process: Callable):
    short, out = (in_process("train", word)[1] for word in ("--help", "--help-all"))
    for name, field in OPTIONS.items():
        assert f"--{flag(name)} " in out and field.metadata["help"]
        assert (f"--{flag(name)} " in short) == field.metadata["common"]
    assert short.count("\n  --") == 15 + len(["--json", "--quiet", "--watch", "--help-all"])


def test_an_output_that_is_not_utf8_still_shows_the_text(lm_run: Path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "headway", "generate", str(lm_run), "caté ", "--max-tokens", "7", "--seed", "3"]
    found = subprocess.run(command, capture_output=True, env=environment, timeout=60)
    assert found.returncode == 0, found.stderr.decode()
    assert rb"cat\xe9" in found.stdout
    found = subprocess.run([*command, "--json"], capture_output=True, env=environment, timeout=60)
    assert json.loads(found.stdout)["results"]


def test_blank_texts_are_counted(classifier_run: Path, tmp_path: Path, in_process: Callable):
    (tmp_path / "texts.txt").write_text("a cat\n\n  \nthe mat\n")
    status, _, said = in_process("classify", classifier_run, tmp_path / "texts.txt", "--to", tmp_path / "out.csv")
    assert status == 0 and "2 of 4 texts have no token that the model knows: no label is given" in said
    assert "the text has no token" in in_process("classify", classifier_run, "")[2]
    assert "no token" not in in_process("classify", classifier_run, "a cat")[2]


def test_what_is_counted_is_named(classifier_run: Path, rows: Path, lm_run: Path, tmp_path: Path, in_process: Callable):
    head, *lines = rows.read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join([head, lines[0]]))
    out = in_process("evaluate", classifier_run, tmp_path / "one.csv")[1]
    assert "one.csv: 1 row, in float32\n" in out and ", 1 row\n" in out and "1 rows" not in out
    (tmp_path / "text.txt").write_text("the dog saw the cat and the bird saw the dog again and again\n" * 9)
    out = in_process("evaluate", lm_run, tmp_path / "text.txt")[1]
    assert " tokens, in float32\n" in out.splitlines(keepends=True)[0]


def test_options_of_a_model_that_cannot_be_are_named_as_they_were_given(corpus: Path, tmp_path: Path, in_process):
    asked = ("train", corpus, "--steps", "2", "--out", tmp_path / "run")
    said = in_process(*asked, "--heads", "3", "--d-model", "64")[2]
    assert "--heads is 3, but must be a divisor of --d-model = 64" in said
    assert "--learning-rate is 1e+09;" in in_process(*asked, "--learning-rate", "1e9")[2]


@pytest.mark.parametrize("words", [["pipe"], ["pipe", "great"], ["./pipe"]])
def test_a_pipe_named_by_a_bare_word_is_no_text(
    words: list[str], classifier_run: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    for verb in ("classify", "predict"):
        in_process.refused(verb, classifier_run, *words, said="pipe", lines=1)
