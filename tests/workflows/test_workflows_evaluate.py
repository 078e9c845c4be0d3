"""``evaluate`` gives the numbers of the training run again, from the saved directory alone."""

import json
import warnings
from pathlib import Path

import pytest

import headway
from headway.data.open.read import read
from headway.data.records.labels import labelled
from headway.errors import InputError
from headway.workflows.evaluate import evaluate


def metrics(run: Path) -> dict:
    return json.loads((run / "headway.json").read_text(encoding="utf-8"))["metrics"]


def same(found: dict, expected: dict) -> bool:
    numbers = {name: value for name, value in expected.items() if isinstance(value, float)}
    assert numbers and found.get("confusion") == expected.get("confusion")
    return {name: found[name] for name in numbers} == pytest.approx(numbers, abs=1e-6)


@pytest.mark.parametrize("run", ["lm_run", "char_run", "classifier_run"])
def test_the_validation_metrics_are_reproduced(request: pytest.FixtureRequest, run: str):
    directory = request.getfixturevalue(run)
    found = evaluate(directory)
    assert same(found, metrics(directory))
    assert found["on"].endswith("the held-out part")


def test_the_training_file_itself_is_measured_on_its_held_out_part(
    lm_run: Path, corpus: Path, classifier_run: Path, rows: Path, tmp_path: Path
):
    for run, data in ((lm_run, corpus), (classifier_run, rows)):
        moved = tmp_path / data.name
        moved.write_bytes(data.read_bytes())
        assert same(evaluate(run, [moved]), metrics(run))


def test_another_file_is_measured_whole(lm_run: Path, corpus: Path, classifier_run: Path, rows: Path, tmp_path: Path):
    text = tmp_path / "other.txt"
    text.write_text(corpus.read_text() + "the end\n")
    lm = headway.load(lm_run)
    found = evaluate(lm_run, [text])
    assert found["examples"] == len(lm.tokenizer.encode(text.read_text())) - 1
    table = tmp_path / "other.csv"
    table.write_text("".join(rows.read_text().splitlines(keepends=True)[:102]))
    assert evaluate(classifier_run, [table])["examples"] == 101
    assert evaluate(classifier_run, [table])["on"] == str(table)


def test_rows_that_were_held_out_are_no_leaks(classifier_run: Path, rows: Path, tmp_path: Path):
    header, *lines = rows.read_text().splitlines(keepends=True)
    held_out = set(labelled(read([rows]), "text", "label").split(0)[1])
    inside = [line.rpartition(",")[0].strip('"') in held_out for line in lines]
    assert 0 < sum(inside) < len(lines)
    some = tmp_path / "some.csv"
    some.write_text(header + "".join(line for line, apart in zip(lines, inside, strict=True) if apart))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(classifier_run, [some])
    some.write_text(header + "".join(lines[:102]))
    with pytest.warns(UserWarning, match=f"{102 - sum(inside[:102])} of 102 rows also occur"):
        evaluate(classifier_run, [some])


def test_with_a_validation_file_the_metrics_are_those_on_it(rows: Path, tmp_path: Path, tiny: dict):
    lines = rows.read_text().splitlines(keepends=True)
    train, held_out = tmp_path / "train.csv", tmp_path / "held_out.csv"
    train.write_text("".join(lines[:151])), held_out.write_text("".join([lines[0], *lines[151:]]))
    headway.train(train, validation=held_out, out=tmp_path / "run", quiet=True, **tiny)
    expected = metrics(tmp_path / "run")
    assert same(evaluate(tmp_path / "run"), expected)
    assert same(evaluate(tmp_path / "run", [held_out]), expected)
    whole = evaluate(tmp_path / "run", [train])
    assert whole["examples"] == 150, "nothing of the training file was held out"
    assert whole["on"] == str(train)


def test_labels_the_model_does_not_know_are_named(classifier_run: Path, tmp_path: Path):
    table = tmp_path / "other.csv"
    table.write_text("text,label\n" + "the cat,pos\nold dogs,odd\n" * 7)
    with pytest.raises(InputError, match=r"odd.*known: neg, pos"):
        evaluate(classifier_run, [table])


def test_rows_of_one_label_are_measured(classifier_run: Path, tmp_path: Path):
    label = headway.load(classifier_run).labels[0]
    (tmp_path / "one.csv").write_text("text,label\n" + "".join(f"a new text {i},{label}\n" for i in range(4)))
    found = evaluate(classifier_run, [tmp_path / "one.csv"])
    answers = headway.load(classifier_run)([f"a new text {i}" for i in range(4)])
    assert found["examples"] == 4 and found["accuracy"] == sum(one["label"] == label for one in answers) / 4


def test_the_wrong_kind_of_file_is_refused(classifier_run: Path, lm_run: Path, corpus: Path, rows: Path):
    with pytest.raises(InputError):
        evaluate(classifier_run, [corpus])
    assert evaluate(lm_run, [rows])["examples"] > 0, "a column of texts is running text too"


def test_without_any_record_a_file_must_be_named(lm_run: Path, tmp_path: Path):
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((lm_run / name).read_bytes())
    with pytest.raises(InputError, match="name a file"):
        evaluate(tmp_path)
