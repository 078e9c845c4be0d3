"""Several labels for each text: found in every form, learnt, measured as answered, saved, and read by others."""

import json
import random

import numpy as np
import pytest
import rows_kit
from faults_harness import facts_of
from rows_kit import TINY, answered, by_label, check_refused, heads, table

import headway
from headway.data.open.read import read
from headway.errors import InputError
from headway.tasks.label_sets import PLAIN, Lists, best_thresholds, set_scores, set_units
from headway.tasks.registry import task_named
from headway.workflows.export import export
from headway.workflows.input import detect

SIGNS = {"delay": "late", "cancel": "cancelled", "luggage": "bag", "food": "meal"}
TEXT = "the flight was late to a cancelled meal 7"


def made(count=240):
    """Texts whose words say which labels they have."""
    draw, found = random.Random(0), []
    for number in range(count):
        has = [label for label in SIGNS if draw.random() < 0.4]
        others = draw.choices(["the", "flight", "was", "to", "a", "big", "old", "town"], k=5)
        words = [*(SIGNS[label] for label in has), *others]
        draw.shuffle(words)
        found.append((f"{' '.join(words)} {number}", has))
    return found


def columns(path, count=240, **changed):
    """A column of 0 and 1 for each label."""
    rows = ({"text": text, **{label: str(int(label in has)) for label in SIGNS}} for text, has in made(count))
    return table(path, rows, **changed)


def json_lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def lists(path, write=lambda has: has, count=240):
    """A list of labels in each row."""
    return json_lines(path, [{"text": text, "topics": write(has)} for text, has in made(count)])


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    return lists(tmp_path_factory.mktemp("rows") / "rows.jsonl", count=500)


@pytest.fixture(scope="module")
def run(complaints, tmp_path_factory):
    return rows_kit.trained(complaints, tmp_path_factory.mktemp("sets"), steps=300)


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
    for kind in ("micro", "macro"):
        assert found[f"{kind}_f1"] == pytest.approx(f1_score(targets, chosen, average=kind))
    assert found["average_precision"] == pytest.approx(average_precision_score(targets, scores, average="macro"))
    assert found["subset_accuracy"] == accuracy_score(targets, chosen)
    assert found["per_class"]["b"]["support"] == targets[:, 1].sum()
    units = set_units(targets, chosen)
    assert units[:, 0].sum() / units[:, 1].sum() == pytest.approx(found["micro_f1"])


WAYS = {
    "json": lambda has: has,
    **{mark: lambda has, mark=mark: mark.join(has or ["none"]) for mark in (";", "|", ",")},
    "#": lambda has: " ".join(f"#{label}" for label in has or ["none"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_lists_is_found_and_learnt(way, tmp_path):
    file = lists(tmp_path / "rows.jsonl", WAYS[way])
    found = detect(read(file))
    assert (found.task, found.text_column, found.label_column) == ("multi_label", "text", "topics")
    assert headway.train(file, out=tmp_path / "run", steps=2, **TINY)["task"] == "multi_label"
    classes = facts_of(tmp_path / "run")["data"]["classes"]
    assert set(SIGNS) <= set(classes) and classes["delay"] == sum("delay" in has for _, has in made())


def test_columns_of_0_and_1_are_found_and_can_be_chosen(tmp_path, in_process):
    file, out = columns(tmp_path / "rows.csv"), tmp_path / "run"
    found = detect(read(file))
    assert (found.task, found.label_columns) == ("multi_label", tuple(SIGNS))
    chosen = ["--task", "multi_label", "--label-column", "food", "--label-column", "delay", "--out", out]
    words = ["--steps", 2, "--d-model", 32, "--layers", 1, "--heads", 2, "--threads", 1, "--quiet"]
    in_process.passed("train", file, *chosen, *words)
    config, data = json.loads((out / "config.json").read_text()), facts_of(out)
    assert list(config["id2label"].values()) == ["delay", "food"] and config["problem_type"].startswith("multi_label")
    assert data["data"]["label_columns"] == ["food", "delay"]
    assert headway.evaluate(out)["micro_f1"] == pytest.approx(data["metrics"]["micro_f1"])
    other = columns(tmp_path / "other.csv", 40)
    assert headway.evaluate(out, other)["examples"] == 40  # the same two columns
    assert headway.evaluate(out, other, label_column=["delay", "food"])["examples"] == 40
    with pytest.raises(InputError, match="does not know: 'cancel'"):
        headway.evaluate(out, other, label_column=list(SIGNS))


def test_what_is_measured_is_what_answers(run, complaints):
    facts, again, pipe = facts_of(run), headway.evaluate(run), headway.load(run)
    for key in ("micro_f1", "macro_f1", "average_precision", "subset_accuracy", "val_loss"):
        assert again[key] == pytest.approx(facts["metrics"][key], abs=1e-6), key
    thresholds, verdict = facts["metrics"]["thresholds"], facts["verdict"]
    assert again["micro_f1"] > 0.9 and set(thresholds) == set(SIGNS)
    assert verdict["metric"] == "micro_f1" and verdict["paired"]
    assert verdict["value"] == pytest.approx(again["micro_f1"])
    assert [line["name"] for line in facts["baselines"]][:2] == ["no label", "most frequent labels"]
    answers = pipe([TEXT, "a late flight", "the old town"])
    assert [answer["labels"] for answer in answers] == [["cancel", "delay", "food"], ["delay"], []]
    for answer in answers:
        assert list(answer["scores"]) == sorted(SIGNS)
        assert answer["labels"] == [label for label, score in answer["scores"].items() if score >= thresholds[label]]
    with pytest.warns(UserWarning, match="no token that the model knows"):
        assert pipe("qqq") == {"labels": [], "scores": {}}
    other = headway.evaluate(run, complaints)
    assert other["examples"] == again["examples"] and other["micro_f1"] == pytest.approx(again["micro_f1"])


def test_the_command_answers(run, tmp_path, in_process):
    first, second = in_process.passed("classify", run, TEXT, "the old town")[0].splitlines()
    assert first.startswith("cancel 0.") and ", food 0." in first and second == "-\tthe old town"
    found = answered(in_process, "classify", run, lists(tmp_path / "rows.jsonl", count=9), tmp_path / "answers.csv")
    names = ["labels", *(f"score: {label}" for label in sorted(SIGNS)), "known"]
    assert [name for name in found[0] if name not in ("text", "topics")] == names
    assert sum(row["labels"] == ";".join(sorted(has)) for row, (_, has) in zip(found, made(9), strict=True)) >= 8


def test_others_read_the_same(run, tmp_path):
    """Scores and labels after an export; a directory without a record of the run is recognised by problem_type."""
    texts = [text for text, _ in made(20)]
    theirs = rows_kit.others_answer(run, tmp_path / "hf", texts, top_k=None)
    ours, again = headway.load(run)(texts), headway.load(tmp_path / "hf")
    assert again.task == "multi_label" and [one["labels"] for one in again(texts)] == [one["labels"] for one in ours]
    for one, other in zip(ours, theirs, strict=True):
        assert by_label(other) == pytest.approx(one["scores"], abs=1e-4)


def test_the_report_and_what_the_model_attends_to(run):
    page, rows = (run / "report.html").read_text(), facts_of(run)["data"]["rows"]["read"]
    share = sum("food" in has for _, has in made(rows)) / rows
    assert "Metrics by class" in page and f"({share:.1%})" in page
    found = task_named("multi_label").inspect(headway.load(run), TEXT, None)
    assert found is not None and len(found.tokens["text"]) == 11  # nine words, [CLS] and [SEP]


@pytest.mark.thorough
def test_verify_passes(run, in_process):
    rows_kit.check_verified(run, in_process)


def test_from_a_pretrained_model_and_from_its_own_run(run, complaints, classifier_run, tmp_path):
    found = heads(complaints, [classifier_run, run], tmp_path)
    assert found == ["a new one, which starts untrained", f"the one of {run}, with its 4 classes"]
    rows, one = [{"text": text, "label": (has or ["food"])[0]} for text, has in made(80)], tmp_path / "one"
    heads(table(tmp_path / "one.csv", rows), [run], one)  # one label: another problem, a new head
    assert "problem_type" not in json.loads((one / "from0" / "config.json").read_text())
    assert headway.load(one / "from0").task == "classification"


@pytest.mark.parametrize(
    ("make", "file", "said"),
    [
        (lambda path: lists(path, lambda has: []), "rows.jsonl", "no label: nothing to learn"),
        (lambda path: lists(path, lambda has: ["food"] * bool(has)), "rows.jsonl", "no label but 'food'"),
        (lambda path: lists(path, lambda has: ["food", "delay"]), "rows.jsonl", "have the same labels"),
        (
            lambda path: lists(path, lambda has: json.dumps(has) if len(has) != 4 else "[food"),
            *("rows.jsonl", "holds '[food'"),
        ),
        (lambda path: columns(path, food="2"), "rows.csv", "'2', which is no value for multi_label"),
        (lambda path: columns(path, food=""), "rows.csv", "1 row has no label"),
    ],
    ids=["empty lists", "one label", "always the same", "no JSON", "a 2", "a hole"],
)
def test_bad_labels_are_one_message(make, file, said, tmp_path):
    named = ",".join(SIGNS) if file == "rows.csv" else "topics"
    check_refused(make(tmp_path / file), said, tmp_path / "run", task="multi_label", label_column=named)


def test_labels_that_the_model_does_not_know_are_named(run, tmp_path):
    with pytest.raises(InputError, match="does not know: 'hotel'; known: cancel, delay"):
        headway.evaluate(run, lists(tmp_path / "rows.jsonl", lambda has: [*has, "hotel"]))


def test_the_way_that_most_lists_are_written_in_counts():
    assert Lists.of(["a,b", "b,c", "c", "rock;roll,b"]).how == "separated by ,"
    assert Lists.of(['["a, b"]', '["c"]', "[]"]).how == "as JSON writes them"
    assert Lists.of(["a", "b"]).how == PLAIN
    assert Lists.of(["a"], recorded="separated by ;").labels("b; a;") == ("a", "b")


def test_a_new_head_forgets_the_thresholds_of_the_old_one(run, tmp_path):
    export(run, tmp_path / "hf")
    assert set(json.loads((tmp_path / "hf" / "config.json").read_text())["thresholds"]) == set(SIGNS)
    heads(lists(tmp_path / "rows.jsonl", lambda has: [f"{label}!" for label in has]), [tmp_path / "hf"], tmp_path)
    assert "thresholds" not in json.loads((tmp_path / "from0" / "config.json").read_text())


def test_one_text_with_other_labels_is_shown_in_plain_words(tmp_path):
    file = columns(tmp_path / "rows.csv")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, lines[1][:-1] + str(1 - int(lines[1][-1]))]) + "\n")
    headway.train(file, out=tmp_path / "run", steps=1, **TINY)
    warnings = facts_of(tmp_path / "run")["data"]["warnings"]
    (line,) = [line for line in warnings if "more than one label" in line]
    assert "0, " in line and "x1f" not in line


def test_lists_of_numbers_are_no_labels_unless_they_are_called_so(tmp_path):
    def vectors(name):
        lines = [{"text": text, name: [number % 7, number % 5]} for number, (text, _) in enumerate(made(60))]
        return detect(read(json_lines(tmp_path / f"{name}.jsonl", lines)))

    assert vectors("topics").task == "multi_label"
    found = vectors("place")
    assert found.task == "language_modeling" and any("'place' is not read" in reason for reason in found.reasons)


def test_several_columns_are_for_this_task_alone(tmp_path):
    with pytest.raises(InputError, match="--label-column names 2 columns; classification reads one"):
        detect(read(columns(tmp_path / "rows.csv")), task="classification", label_column="food,delay")
    with pytest.raises(InputError, match="no column 'fod'"):
        detect(read(tmp_path / "rows.csv"), label_column="fod,delay")


def test_a_label_of_every_row_and_a_thousand_labels(tmp_path):
    headway.train(lists(tmp_path / "a.jsonl", lambda has: [*has, "all"]), out=tmp_path / "a", steps=1, **TINY)
    assert any("every row has the label 'all'" in line for line in facts_of(tmp_path / "a")["data"]["warnings"])
    draw = random.Random(1)
    many = lists(tmp_path / "b.jsonl", lambda has: draw.sample([f"l{n}" for n in range(1000)], 9), count=400)
    found = headway.train(many, task="multi_label", label_column="topics", out=tmp_path / "b", steps=1, **TINY)
    assert found["micro_f1"] is not None and len(headway.load(tmp_path / "b").labels) > 950
