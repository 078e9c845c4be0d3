"""Several labels for each text: found in every form, learnt, measured as answered, saved, and read by others."""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.data.open.read import read
from headway.errors import InputError
from headway.tasks.label_sets import PLAIN, Lists, best_thresholds, set_scores, set_units
from headway.tasks.registry import task_named
from headway.workflows.export import export
from headway.workflows.input import detect

SIGNS = {"delay": "late", "cancel": "cancelled", "luggage": "bag", "food": "meal"}
OTHERS = ["the", "flight", "was", "to", "a", "big", "old", "town"]
TEXT = "the flight was late to a cancelled meal 7"
TINY: dict[str, Any] = {"d_model": 32, "layers": 1, "heads": 2, "threads": 1, "quiet": True, "layout": "bert"}


def made(count: int = 240) -> list[tuple[str, list[str]]]:
    """Texts whose words say which labels they have."""
    draw, found = random.Random(0), []
    for number in range(count):
        has = [label for label in SIGNS if draw.random() < 0.4]
        words = [*(SIGNS[label] for label in has), *draw.choices(OTHERS, k=5)]
        draw.shuffle(words)
        found.append((f"{' '.join(words)} {number}", has))
    return found


def columns(path: Path, count: int = 240, **changed: str) -> Path:
    """A column of 0 and 1 for each label."""
    rows = [{"text": text, **{label: str(int(label in has)) for label in SIGNS}} for text, has in made(count)]
    rows[7] |= changed
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def lists(path: Path, write: Callable[[list[str]], Any] = lambda has: has, count: int = 240) -> Path:
    """A list of labels in each row."""
    lines = [{"text": text, "topics": write(has)} for text, has in made(count)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lists(tmp_path_factory.mktemp("rows") / "rows.jsonl", count=500)


@pytest.fixture(scope="module")
def run(complaints: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; look, but do not write."""
    out = tmp_path_factory.mktemp("runs") / "sets"
    headway.train(complaints, out=out, steps=300, learning_rate=3e-3, **TINY)
    return out


def test_thresholds_are_where_f1_is_highest():
    scores = np.array([[0.9, 0.2], [0.8, 0.9], [0.4, 0.1], [0.1, 0.3]])
    targets = np.array([[1, 0], [0, 0], [1, 0], [0, 0]])
    assert best_thresholds(scores, targets) == pytest.approx([0.25, 0.5])  # 3 of 4 found: F1 0.8, not 0.67 of the first
    assert best_thresholds(np.full((3, 1), 0.7), np.array([[1], [0], [1]])) == pytest.approx([0.6995])


def test_scores_are_those_of_scikit_learn():
    from sklearn.metrics import accuracy_score, average_precision_score, f1_score

    draw = np.random.default_rng(0)
    targets, scores = (draw.random((50, 6)) < 0.3).astype(int), draw.random((50, 6))
    chosen = scores > 0.6
    found = set_scores(targets, scores, chosen, list("abcdef"))
    assert found["micro_f1"] == pytest.approx(f1_score(targets, chosen, average="micro"))
    assert found["macro_f1"] == pytest.approx(f1_score(targets, chosen, average="macro"))
    assert found["average_precision"] == pytest.approx(average_precision_score(targets, scores, average="macro"))
    assert found["subset_accuracy"] == accuracy_score(targets, chosen)
    assert found["per_class"]["b"]["support"] == targets[:, 1].sum()
    units = set_units(targets, chosen)
    assert units[:, 0].sum() / units[:, 1].sum() == pytest.approx(found["micro_f1"])


WAYS: dict[str, Callable[[list[str]], Any]] = {
    "json": lambda has: has,
    **{mark: lambda has, mark=mark: mark.join(has or ["none"]) for mark in (";", "|", ",")},
    "#": lambda has: " ".join(f"#{label}" for label in has or ["none"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_lists_is_found_and_learnt(way: str, tmp_path: Path):
    file = lists(tmp_path / "rows.jsonl", WAYS[way])
    found = detect(read(file))
    assert (found.task, found.text_column, found.label_column) == ("multi_label", "text", "topics")
    trained = headway.train(file, out=tmp_path / "run", steps=2, **TINY)
    facts = json.loads((tmp_path / "run" / "headway.json").read_text())
    assert set(SIGNS) <= set(facts["data"]["classes"]) and trained["task"] == "multi_label"
    assert facts["data"]["classes"]["delay"] == sum("delay" in has for _, has in made())


def test_columns_of_0_and_1_are_found_and_can_be_chosen(tmp_path: Path, in_process: Callable):
    file, out = columns(tmp_path / "rows.csv"), tmp_path / "run"
    found = detect(read(file))
    assert (found.task, found.label_columns) == ("multi_label", tuple(SIGNS))
    words = ["--steps", 2, "--d-model", 32, "--layers", 1, "--heads", 2, "--threads", 1, "--quiet"]
    status, _, err = in_process(
        "train",
        file,
        "--task",
        "multi_label",
        "--label-column",
        "food",
        "--label-column",
        "delay",
        "--out",
        out,
        *words,
    )
    assert status == 0, err
    config, data = (json.loads((out / name).read_text()) for name in ("config.json", "headway.json"))
    assert list(config["id2label"].values()) == ["delay", "food"] and config["problem_type"].startswith("multi_label")
    assert data["data"]["label_columns"] == ["food", "delay"]
    assert headway.evaluate(out)["micro_f1"] == pytest.approx(data["metrics"]["micro_f1"])
    other = columns(tmp_path / "other.csv", 40)
    assert headway.evaluate(out, other)["examples"] == 40  # the same two columns
    assert headway.evaluate(out, other, label_column=["delay", "food"])["examples"] == 40
    with pytest.raises(InputError, match="labels that the model does not know: 'cancel'"):
        headway.evaluate(out, other, label_column=list(SIGNS))


def test_what_is_measured_is_what_answers(run: Path, complaints: Path):
    facts = json.loads((run / "headway.json").read_text())
    again, pipe = headway.evaluate(run), headway.load(run)
    for key in ("micro_f1", "macro_f1", "average_precision", "subset_accuracy", "val_loss"):
        assert again[key] == pytest.approx(facts["metrics"][key], abs=1e-6), key
    assert again["micro_f1"] > 0.9 and set(facts["metrics"]["thresholds"]) == set(SIGNS)
    verdict = facts["verdict"]
    assert (
        verdict["metric"] == "micro_f1" and verdict["paired"] and verdict["value"] == pytest.approx(again["micro_f1"])
    )
    assert [line["name"] for line in facts["baselines"]][:2] == ["no label", "most frequent labels"]
    answers = pipe([TEXT, "a late flight", "the old town"])
    assert [answer["labels"] for answer in answers] == [["cancel", "delay", "food"], ["delay"], []]
    for answer in answers:
        assert list(answer["scores"]) == sorted(SIGNS)
        named = [label for label, score in answer["scores"].items() if score >= facts["metrics"]["thresholds"][label]]
        assert answer["labels"] == named
    with pytest.warns(UserWarning, match="no token that the model knows"):
        assert pipe("qqq") == {"labels": [], "scores": {}}
    other = headway.evaluate(run, complaints)
    assert other["examples"] == again["examples"] and other["micro_f1"] == pytest.approx(again["micro_f1"])


def test_the_command_answers(run: Path, tmp_path: Path, in_process: Callable):
    status, out, _ = in_process("classify", run, TEXT, "the old town")
    first, second = out.splitlines()
    assert status == 0 and first.startswith("cancel 0.") and ", food 0." in first and second == "-\tthe old town"
    file, to = lists(tmp_path / "rows.jsonl", count=9), tmp_path / "answers.csv"
    status, _, err = in_process("classify", run, file, "--to", to)
    assert status == 0, err
    with to.open(newline="") as lines:
        table = list(csv.DictReader(lines))
    names = ["labels", *(f"score: {label}" for label in sorted(SIGNS)), "known"]
    assert [name for name in table[0] if name not in ("text", "topics")] == names and len(table) == 9
    right = [row["labels"] == ";".join(sorted(has)) for row, (_, has) in zip(table, made(9), strict=True)]
    assert sum(right) >= 8


def test_others_read_the_same(run: Path, tmp_path: Path):
    """Scores and labels after an export; a directory without a record of the run is recognised by problem_type."""
    transformers = pytest.importorskip("transformers")
    written, texts = export(run, tmp_path / "hf"), [text for text, _ in made(20)]
    assert written.parity.passed, written.parity.problem
    ours, again = headway.load(run)(texts), headway.load(tmp_path / "hf")
    assert again.task == "multi_label" and [one["labels"] for one in again(texts)] == [one["labels"] for one in ours]
    pipe = transformers.pipeline("text-classification", str(tmp_path / "hf"), device="cpu")
    for one, theirs in zip(ours, pipe(texts, top_k=None), strict=True):
        assert {found["label"]: found["score"] for found in theirs} == pytest.approx(one["scores"], abs=1e-4)


def test_the_report_and_what_the_model_attends_to(run: Path):
    page = (run / "report.html").read_text()
    rows = json.loads((run / "headway.json").read_text())["data"]["rows"]["read"]
    share = sum("food" in has for _, has in made(rows)) / rows
    assert "Metrics by class" in page and f"({share:.1%})" in page
    found = task_named("multi_label").inspect(headway.load(run), TEXT, None)
    assert found is not None and len(found.tokens["text"]) == 11  # nine words, [CLS] and [SEP]


@pytest.mark.thorough
def test_verify_passes(run: Path, in_process: Callable):
    status, out, err = in_process("verify", run, "--json", "--quiet", "--threads", "1")
    checks = {check["name"]: check["passed"] for check in json.loads(out.splitlines()[-1])["checks"]}
    assert status == 0 and all(checks[name] for name in ("batch", "accumulation", "export", "checkpoints", "resume")), (
        err
    )


def test_from_a_pretrained_model_and_from_its_own_run(
    run: Path, complaints: Path, classifier_run: Path, tmp_path: Path
):
    few = {"steps": 4, "threads": 1, "quiet": True}
    headway.train(complaints, from_model=str(classifier_run), out=tmp_path / "new", **few)
    headway.train(complaints, from_model=str(run), out=tmp_path / "on", **few)
    heads = []
    for name in ("new", "on"):
        facts = json.loads((tmp_path / name / "headway.json").read_text())
        heads += [one["value"] for one in facts["decisions"] if one["what"] == "head"]
    assert heads == ["a new one, which starts untrained", f"the one of {run}, with its 4 classes"]
    csv_rows = tmp_path / "one.csv"
    csv_rows.write_text("text,label\n" + "".join(f"{text},{(has or ['food'])[0]}\n" for text, has in made(80)))
    headway.train(csv_rows, from_model=str(run), out=tmp_path / "one", **few)  # one label: another problem, a new head
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    assert "problem_type" not in config and headway.load(tmp_path / "one").task == "classification"


WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "empty lists": (lambda path: lists(path, lambda has: []), "the rows have no label: nothing to learn"),
    "one label": (lambda path: lists(path, lambda has: ["food"] * bool(has)), "the rows have no label but 'food'"),
    "always the same": (lambda path: lists(path, lambda has: ["food", "delay"]), "the rows have the same labels"),
    "no JSON": (lambda path: lists(path, lambda has: json.dumps(has) if len(has) != 4 else "[food"), "holds '[food'"),
    "a 2": (lambda path: columns(path, food="2"), "'2', which is no value for multi_label"),
    "a hole": (lambda path: columns(path, food=""), "1 row has no label"),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_labels_are_one_message(what: str, tmp_path: Path):
    make, said = WRONG[what]
    file = make(tmp_path / ("rows.csv" if "columns" in make.__code__.co_names else "rows.jsonl"))
    named = ",".join(SIGNS) if file.suffix == ".csv" else "topics"
    with pytest.raises(InputError) as raised:
        headway.train(file, task="multi_label", label_column=named, out=tmp_path / "run", steps=1, **TINY)
    assert said in str(raised.value) and not (tmp_path / "run").exists()


def test_labels_that_the_model_does_not_know_are_named(run: Path, tmp_path: Path):
    with pytest.raises(InputError, match="has labels that the model does not know: 'hotel'; known: cancel, delay"):
        headway.evaluate(run, lists(tmp_path / "rows.jsonl", lambda has: [*has, "hotel"]))


def test_the_way_that_most_lists_are_written_in_counts():
    assert Lists.of(["a,b", "b,c", "c", "rock;roll,b"]).how == "separated by ,"
    assert Lists.of(['["a, b"]', '["c"]', "[]"]).how == "as JSON writes them"
    assert Lists.of(["a", "b"]).how == PLAIN and Lists.of(["a"], recorded="separated by ;").labels("b; a;") == (
        "a",
        "b",
    )


def test_a_new_head_forgets_the_thresholds_of_the_old_one(run: Path, tmp_path: Path):
    export(run, tmp_path / "hf")
    assert set(json.loads((tmp_path / "hf" / "config.json").read_text())["thresholds"]) == set(SIGNS)
    others = lists(tmp_path / "rows.jsonl", lambda has: [f"{label}!" for label in has])
    headway.train(others, from_model=str(tmp_path / "hf"), out=tmp_path / "run", steps=2, threads=1, quiet=True)
    assert "thresholds" not in json.loads((tmp_path / "run" / "config.json").read_text())


def test_one_text_with_other_labels_is_shown_in_plain_words(tmp_path: Path):
    file = columns(tmp_path / "rows.csv")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, lines[1][:-1] + str(1 - int(lines[1][-1]))]) + "\n")
    headway.train(file, out=tmp_path / "run", steps=1, **TINY)
    warnings = json.loads((tmp_path / "run" / "headway.json").read_text())["data"]["warnings"]
    (line,) = [line for line in warnings if "more than one label" in line]
    assert "0, " in line and "x1f" not in line


def test_lists_of_numbers_are_no_labels_unless_they_are_called_so(tmp_path: Path):
    def vectors(name: str) -> Any:
        lines = [{"text": text, name: [number % 7, number % 5]} for number, (text, _) in enumerate(made(60))]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return detect(read(path))

    assert vectors("topics").task == "multi_label"
    found = vectors("place")
    assert found.task == "language_modeling" and any("'place' is not read" in reason for reason in found.reasons)


def test_several_columns_are_for_this_task_alone(tmp_path: Path):
    with pytest.raises(InputError, match="--label-column names 2 columns; classification reads one"):
        detect(read(columns(tmp_path / "rows.csv")), task="classification", label_column="food,delay")
    with pytest.raises(InputError, match="no column 'fod'"):
        detect(read(tmp_path / "rows.csv"), label_column="fod,delay")


def test_a_label_of_every_row_and_a_thousand_labels(tmp_path: Path):
    headway.train(lists(tmp_path / "a.jsonl", lambda has: [*has, "all"]), out=tmp_path / "a", steps=1, **TINY)
    facts = json.loads((tmp_path / "a" / "headway.json").read_text())
    assert any("every row has the label 'all'" in line for line in facts["data"]["warnings"])
    draw = random.Random(1)
    many = lists(tmp_path / "b.jsonl", lambda has: draw.sample([f"l{n}" for n in range(1000)], 9), count=400)
    found = headway.train(many, task="multi_label", label_column="topics", out=tmp_path / "b", steps=1, **TINY)
    assert found["micro_f1"] is not None and len(headway.load(tmp_path / "b").labels) > 950
