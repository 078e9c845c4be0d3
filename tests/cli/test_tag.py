"""`headway tag`: spans of a text, of several, of a file, and of a table; and what else is to be tagged."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import headway

LINES = "Anna\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n.\tO\n\nIt\tO\nrained\tO\nin\tO\nRome\tB-LOC\n.\tO\n\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tag")
    names = ["Anna", "Ben", "Clara", "Ida", "Tom", "Mia", "Leo"]
    (folder / "a.conll").write_text("".join(LINES.replace("Anna", name) for name in names * 7))
    options = {"threads": 1, "precision": "float32", "quiet": True, "d_model": 32, "layers": 1, "evaluations": 1}
    headway.train(folder / "a.conll", out=folder / "run", steps=40, **options)
    return folder / "run"


def test_a_text(in_process: Callable, run: Path):
    text = "Anna saw New York."
    out, err = in_process.passed("tag", run, text, "--threads", 1)
    assert err == ""
    lines = [line.split("\t") for line in out.splitlines()]
    assert all(text[int(start) : int(end)] == words for _, _, start, end, words in lines) and lines
    found = in_process.json("tag", run, text, "--threads", 1)
    assert found["task"] == "token_classification" and len(found["results"]) == 1
    assert found["results"][0][-1].keys() == {"text", "label", "start", "end", "score"}
    assert [span["text"] for span in found["results"][0]] == [line[-1] for line in lines]
    assert in_process("predict", run, text, "--threads", 1)[1].split("\t")[0] == lines[0][0]


def test_a_table_and_files_of_results(in_process: Callable, run: Path, tmp_path: Path):
    path = tmp_path / "letters.csv"
    path.write_text('id,text\n1,"It rained in Rome."\n2,"Anna saw\nNew York."\n3,"Nothing."\n')
    in_process.passed("tag", run, path, "--to", tmp_path / "a.jsonl", "--threads", 1)
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == ["It rained in Rome.", "Anna saw\nNew York.", "Nothing."]
    assert all(line["text"][span["start"] : span["end"]] == span["text"] for line in lines for span in line["spans"])
    in_process.passed("tag", run, path, "--to", tmp_path / "a.csv", "--threads", 1)
    rows = list(csv.DictReader((tmp_path / "a.csv").open(newline="")))
    assert [row["text"] for row in rows] == [span["text"] for line in lines for span in line["spans"]]
    assert rows[0].keys() == {"number", "text", "label", "start", "end", "score"}
    out, _ = in_process.passed("tag", run, path, "--threads", 1)
    assert out.startswith("It rained in Rome.\n") and "\nAnna saw\\nNew York.\n" in out


def test_other_runs_and_other_verbs(in_process: Callable, run: Path, tmp_path: Path):
    in_process.refused("classify", run, "Anna", said="holds a model for token_classification")
    in_process.refused("tag", tmp_path / "none", "Anna")
    in_process.refused("tag", run, "Anna", "--to", tmp_path / "a.txt", said=".csv")


ROW = {"tokens": ["Anna", "saw", "New", "York"], "ner_tags": ["B-PER", "O", "B-LOC", "I-LOC"]}


@pytest.mark.parametrize("tags", [3, 5])
@pytest.mark.parametrize("good", [0, 1, 40], ids=["all", "most", "one"])
@pytest.mark.parametrize("task", [[], ["--task", "token_classification"]], ids=["found", "named"])
def test_tags_that_are_not_as_many_as_the_tokens(in_process: Callable, tmp_path: Path, tags, good, task):
    path, bad = tmp_path / "a.jsonl", {**ROW, "ner_tags": [*ROW["ner_tags"], "O"][:tags]}
    path.write_text("".join(json.dumps(row) + "\n" for row in [ROW] * good + [bad] * 3 + [ROW] * good))
    said = f"a.jsonl, line {good + 1}: 4 tokens in column 'tokens', but {tags} tags in column 'ner_tags'"
    in_process.refused("train", path, "--out", tmp_path / "run", *task, said=said)


def test_lists_of_several_labels_are_no_tags(in_process: Callable, tmp_path: Path):
    path = tmp_path / "a.jsonl"
    rows = [{"tokens": ["Anna", "saw", "it", str(i)], "labels": ["news", "sport"][: i % 2 + 1]} for i in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, _, err = in_process("train", path, "--out", tmp_path / "run", "--plan")
    assert "token_classification" not in err and "tokens in column" not in err


def test_texts_of_which_the_tokenizer_keeps_nothing(in_process: Callable, run: Path, tmp_path: Path):
    """Format characters: WordPiece drops them; the message names a tokenizer that does not."""
    path, tiny = tmp_path / "a.jsonl", ["--d-model", "16", "--layers", "1", "--steps", "1", "--threads", "1"]
    rows = [{"tokens": ["\u200b" * (i + 1), "\u200d"], "tags": ["B-PER", "O"]} for i in range(20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = "drops all characters of these texts. Train a new model with --tokenizer bpe"
    in_process.refused("train", path, "--from", run, "--out", tmp_path / "run", "--threads", "1", said=said)
    in_process.refused("evaluate", run, path, said=said)
    in_process.passed("train", path, "--out", tmp_path / "run", "--tokenizer", "bpe", *tiny)
