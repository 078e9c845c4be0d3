"""Tables, folders of classes and labelled lines are no running text, unless that is what ``--task`` says."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.data.open.read import read
from headway.data.records.table import Table
from headway.errors import InputError
from headway.training.options import TrainOptions
from headway.workflows.input import detect, read_input

WORDS = ["the", "of", "and", "we", "went", "to", "see", "a", "long", "film", "home", "while", "old", "dogs", "ran"]
DRAW = random.Random(2)


def sentence(n: int = 9) -> str:
    return " ".join(DRAW.choices(WORDS, k=n))


def write(path: Path, columns: dict[str, Callable[[int], Any]], count: int = 97) -> Path:
    rows = ["\t".join(columns), *("\t".join(str(value(i)) for value in columns.values()) for i in range(count))]
    path.write_text("\n".join(rows) + "\n")
    return path


def text(_: int) -> str:
    return sentence()


TARGETS = {
    "Preis": lambda i: DRAW.randint(5, 900),
    "total_cost": lambda i: f"{DRAW.random() * 90:.2f}",
    "minutes": lambda i: DRAW.randint(1, 400),
    "Betrag": lambda i: f"{DRAW.randint(5, 900)},50 €",
    "budget": lambda i: f"${DRAW.randint(5, 900)}",
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_number_to_predict_is_never_left_out(name: str, tmp_path: Path):
    source = read(write(tmp_path / "a.tsv", {"text": text, name: TARGETS[name]}))
    with pytest.raises(InputError, match=rf"'{name}' .* could be the label .* add --label-column {name};"):
        detect(source)
    assert detect(source, label_column=name).task == "regression"
    assert detect(source, task="language_modeling").text_column == "text"


@pytest.mark.parametrize(
    ("column", "label", "count"),
    [
        ("code", lambda i: 100 + i % 21, 300),
        ("Kategorie", lambda i: "abcdef"[i % 6], 9),
        ("Note", lambda i: i % 5, 9),
        ("intent", lambda i: f"intent {i % 150}", 450),
    ],
)
def test_what_could_be_a_label_has_to_be_named(column: str, label: Any, count: int, tmp_path: Path):
    source = read(write(tmp_path / "a.tsv", {"text": text, column: label}, count))
    with pytest.raises(InputError, match=rf"'{column}' .* could be the label.*--label-column {column};.*language_mode"):
        detect(source)
    assert detect(source, label_column=column).task == "classification"
    assert detect(source, task="language_modeling").label_column is None


METADATA = {
    "id": lambda i: 7 * i,
    "tweet_id": lambda i: DRAW.randint(10**17, 10**18),
    "time": lambda i: 1_700_000_000 + DRAW.randint(0, 10**6),
    "year": lambda i: DRAW.randint(1950, 2020),
    "likes": lambda i: DRAW.randint(0, 900),
    "url": lambda i: f"http://a.b/{i}",
}


@pytest.mark.parametrize("name", METADATA)
def test_what_says_only_where_a_text_is_from_is_no_target(name: str, tmp_path: Path):
    assert detect(read(write(tmp_path / "a.tsv", {"text": text, name: METADATA[name]}))).task == "language_modeling"


def test_objects_are_no_texts(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    rows = [{"data": {"text": sentence(), "label": "ab"[i % 2]}} for i in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"'data' holds lists or objects.*--text-column"):
        detect(read(path))
    assert detect(read(path), text_column="data").task == "language_modeling"
    path.write_text("".join(json.dumps({"text": sentence(), "meta": row["data"]}) + "\n" for row in rows))
    assert any("'meta' is not read" in reason for reason in detect(read(path)).reasons)
    assert detect(read(path), task="language_modeling").text_column == "text"
    path.write_text("".join(json.dumps({"tokens": sentence().split()}) + "\n" for row in rows))
    with pytest.raises(InputError, match="'tokens' holds lists or objects"):
        detect(read(path))
    lists = [["a", "b"], ["b"], ["a"]]
    path.write_text("".join(json.dumps({"text": sentence(), "tags": lists[i % 3]}) + "\n" for i in range(40)))
    assert "'tags' holds lists of labels, as JSON writes them" in detect(read(path)).reasons[-1]
    path.write_text("".join(json.dumps({**row, "label": "ab"[i % 2]}) + "\n" for i, row in enumerate(rows)))
    with pytest.raises(InputError, match="'data' holds lists or objects"):
        detect(read(path))


def test_texts_that_are_not_read_are_named(tmp_path: Path, in_process: Callable):
    columns = {"Frage": lambda i: sentence(4), "Antwort": lambda i: sentence(19), "Kategorie": lambda i: "abc"[i % 3]}
    status, _, _ = in_process("train", write(tmp_path / "a.tsv", columns), "--plan", "--json")
    found = detect(read(tmp_path / "a.tsv"))
    assert status == 0 and found.text_column == "Antwort" and "'Frage' is not read" in found.reasons[-1]
    source = read(write(tmp_path / "b.tsv", {"text": lambda i: sentence(19), "title": text, "author": text}))
    assert detect(source).reasons[-1].startswith("'title' and 'author' are not read")


def classes(folder: Path, each: int = 20, **other: str) -> Path:
    for name in ("neg", "pos"):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            (folder / name / f"{number}.txt").write_text(f"{sentence()} {name}\n{number}\n")
    for name, content in other.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


def test_a_folder_of_texts_by_class_is_a_table(tmp_path: Path, tiny: dict[str, Any], in_process: Callable):
    folder, other = classes(tmp_path / "train"), classes(tmp_path / "test", 5)
    table, found = read_input([folder], TrainOptions())
    assert isinstance(table, Table) and (found.text_column, found.label_column) == ("text", "label")
    assert table.inputs == [str(folder)] == [table.name] and table.column("label") == ["neg"] * 20 + ["pos"] * 20
    assert table.place(20) == "pos/0.txt" and table.column("text")[20].endswith(" pos\n0\n")
    assert table.fingerprint == read([folder]).fingerprint != read([other]).fingerprint
    run = headway.train(folder, validation=other, out=tmp_path / "run", quiet=True, **{**tiny, "steps": 4})
    assert run["task"] == "classification"
    assert headway.evaluate(tmp_path / "run", folder)["examples"] == 40
    assert headway.evaluate(tmp_path / "run")["examples"] == 10
    status, out, _ = in_process("classify", tmp_path / "run", other, "--json")
    assert status == 0 and len(json.loads(out)["results"]) == 10
    (folder / "neg").rename(folder / "bad")
    assert read([folder]).fingerprint != table.fingerprint, "labels count too"


def test_a_folder_of_classes_is_running_text_where_that_is_said(tmp_path: Path):
    corpus, found = read_input([classes(tmp_path / "a", README_txt="Read me.")], TrainOptions(task="language_modeling"))
    assert found.task == "language_modeling" and corpus.n_documents == 41


def test_folders_that_are_laid_out_otherwise(tmp_path: Path):
    with pytest.raises(InputError, match=r"neg, pos\) and texts that are in none of them \(README.txt\)"):
        read([classes(tmp_path / "a", README_txt="Read me.")])
    for part in ("train", "test"):
        classes(tmp_path / "b" / part, 3)
    with pytest.raises(InputError, match=r"train on .*b/train and name the rest: --validation .*b/test"):
        read([tmp_path / "b"])
    for domain in ("books", "films"):
        classes(tmp_path / "f" / domain, 3)
    with pytest.raises(InputError, match=r"books and films look like parts.*--task language_modeling reads all"):
        read([tmp_path / "f"])
    with pytest.raises(InputError, match="2 folders of one text each"):
        read([classes(tmp_path / "c", 1)])
    (tmp_path / "d.txt").write_text("A text.\n")
    with pytest.raises(InputError, match=r"train has a folder of texts for each class, .*d.txt has not"):
        read([tmp_path / "b" / "train", tmp_path / "d.txt"])
    assert len(read([classes(tmp_path / "e" / "data", 3).parent]).rows) == 6


def test_lines_of_fasttext_are_a_table(tmp_path: Path, in_process: Callable, classifier_run: Path):
    path, lines = tmp_path / "a.txt", [f"__label__{'ab'[i % 2]} {sentence()}" for i in range(40)]
    path.write_text("\n".join(lines) + "\n\n")
    table, found = read_input([path], TrainOptions())
    assert (found.task, found.text_column, found.label_column) == ("classification", "text", "label")
    assert list(table.rows)[3] == {"text": lines[3].removeprefix("__label__b "), "label": "b"}
    assert read_input([path], TrainOptions(task="language_modeling"))[0].n_characters == len("\n".join(lines)) + 2
    status, out, _ = in_process("classify", classifier_run, path, "--json")
    assert status == 0 and len(json.loads(out)["results"]) == 40
    (tmp_path / "b.txt").write_text("A text.\n")
    with pytest.raises(InputError, match=r"b.txt is running text, .*a.txt is a table"):
        read([path, tmp_path / "b.txt"])
    assert len(read_input([path, write_lines(tmp_path / "c.txt", lines)], TrainOptions())[0].rows) == 80


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("__label__a __label__b two", "line 41: '__label__a __label__b two'"),
        ("no label", "line 41: 'no label'"),
        ("a label __label__a", "line 41: 'a label __label__a'"),
    ],
)
def test_a_line_has_one_label(line: str, words: str, tmp_path: Path):
    path = write_lines(tmp_path / "a.txt", [*(f"__label__{'ab'[i % 2]} {sentence()}" for i in range(40)), line])
    with pytest.raises(InputError, match=f"{words}: expected one __label__ at the start.*--task language_modeling"):
        read([path])
    assert len(read([path], on_bad_row="skip").rows) == 40
