"""Several label columns by one model: each learnt, measured, answered and exported as by its own task."""

import json
import random
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from faults_harness import facts_of
from rows_kit import TINY, answered, by_label, check_refused, check_verified, heads, others_answer, table, trained

import headway
from headway.data.batches.batching import Batch, TargetKind
from headway.data.open.read import read
from headway.errors import InputError
from headway.tasks.classes import Classes
from headway.tasks.multi_column.task import ColumnLosses, Part, usual
from headway.tasks.multi_label.task import LabelSets
from headway.tasks.regression.task import SquaredError
from headway.tasks.task import to_compare
from headway.workflows.export import export
from headway.workflows.input import detect

NAMES = ["queue", "stars", "refund", "tags", "price"]
TASKS = dict(zip(NAMES, ["classification", "ratings", "classification", "multi_label", "regression"], strict=True))
QUEUES = {"billing": ["invoice", "charge", "card"], "tech": ["crash", "login", "screen"]}
TAGS = {"vip": "gold", "late": "overdue"}
TEXTS = ["invoice charge card gold very very very very", "crash login screen"]


def tickets(path, count=400, **changed):
    """Tickets whose words say everything; of five rows one lacks a queue, and of four one the price."""
    draw, rows = random.Random(0), []
    for number in range(count):
        queue, urgency, refund = draw.choice(list(QUEUES)), draw.randint(1, 5), draw.random() < 0.5
        tags = [tag for tag in TAGS if draw.random() < 0.5]
        words = draw.sample(QUEUES[queue], 2) + ["very"] * (urgency - 1) + ["refund"] * refund
        words += [TAGS[tag] for tag in tags] + [f"ticket {number}"]
        draw.shuffle(words)
        row = {"text": " ".join(words), "queue": queue, "stars": str(urgency), "refund": str(int(refund))}
        row |= {"tags": json.dumps(tags), "price": f"{2000 + 100 * urgency + 10 * draw.random():.2f}"}
        rows.append(row | ({"queue": ""} if number % 5 == 3 else {"price": "n/a"} if number % 4 == 1 else {}))
    return table(path, rows, **changed)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return tickets(tmp_path_factory.mktemp("rows") / "rows.csv")


@pytest.fixture(scope="module")
def run(records, tmp_path_factory):
    return trained(records, tmp_path_factory.mktemp("columns"), label_column=NAMES, steps=300)


def test_each_column_is_recognised_by_itself(records):
    found = detect(read(records), label_column=",".join(NAMES))
    assert (found.task, found.text_column, found.label_columns) == ("multi_column", "text", tuple(NAMES))
    kinds = "'queue' classes, 'stars' ratings, 'refund' classes, 'tags' lists of labels, 'price' numbers"
    assert kinds in found.reasons[-2] and "export --to hf` writes one for each" in found.reasons[-1]
    flags = detect(read(records), label_column="refund,queue")
    assert flags.task == "multi_column" and any("--task multi_label" in line for line in flags.reasons)
    with pytest.raises(InputError, match="'queue' twice"):
        detect(read(records), label_column="queue,queue")
    with pytest.raises(InputError, match="name each with --label-column"):
        detect(read(records), label_column="queue", task="multi_column")


def test_a_missing_label_adds_nothing_and_columns_weigh_the_same():
    parts = [
        Part("a", "classification", Classes(["x", "y"]), slice(0, 2), slice(0, 1)),
        Part("b", "regression", SquaredError(), slice(2, 3), slice(1, 2)),
    ]
    nan = float("nan")
    outputs = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 3.0], [5.0, 0.0, 9.0], [0.0, 0.0, 0.0]], requires_grad=True)
    targets = torch.tensor([[0.0, 2.0], [1.0, nan], [nan, 7.0], [nan, 1.0]])
    losses = ColumnLosses(parts, targets)
    mean = losses.losses(outputs, targets).mean()
    assert mean.item() == pytest.approx((np.log(2) + (1 + 4 + 1) / 3) / 2)  # by hand: both labelled means, averaged
    mean.backward()
    assert outputs.grad[1, 2] == 0 and (outputs.grad[2:, :2] == 0).all() and outputs.grad[0].all()
    halves = [losses.losses(outputs[part], targets[part]).sum() for part in (slice(0, 1), slice(1, 4))]
    assert sum(halves).item() / 4 == pytest.approx(mean.item())  # however rows are put in batches
    metrics = losses.measured(outputs.detach(), targets)
    assert metrics["val_loss"] == pytest.approx(mean.item())
    assert metrics["columns"]["b"]["mean_absolute_error"] == pytest.approx(4 / 3)
    assert metrics["columns"]["a"]["accuracy"] == 0.5


def test_all_columns_push_equally_when_training_begins():
    draw = torch.Generator().manual_seed(0)
    tags = (torch.rand(300, 4, generator=draw) < torch.tensor([0.5, 0.4, 0.3, 0.1])).float()
    classes, numbers = torch.randint(3, (300, 1), generator=draw).float(), 50 + 20 * torch.randn(300, 1, generator=draw)
    spread = float(numbers.std())
    parts = [
        Part("a", "classification", Classes(["x", "y", "z"]), slice(0, 3), slice(0, 1)),
        Part("b", "multi_label", LabelSets(["p", "q", "r", "s"]), slice(3, 7), slice(1, 5)),
        Part("c", "regression", SquaredError(spread), slice(7, 8), slice(5, 6)),
    ]
    targets = torch.cat([classes, tags, numbers], dim=1)
    each = (usual(part.squeeze(1).numpy(), width) for part, width in ((classes, 3), (tags, 4), (numbers, 1)))
    outputs = torch.cat([torch.tensor(one, dtype=torch.float32) for one in each]).repeat(300, 1).requires_grad_()
    losses, batch = ColumnLosses(parts, targets), Batch({"ids": outputs}, None, targets, TargetKind.ROW)
    loss, count, shown = losses.loss(lambda outputs, mask: outputs, batch)
    loss.backward()
    push = [outputs.grad[:, part.outputs].square().sum(dim=1).mean().sqrt().item() for part in parts]
    assert [push[1], push[2] * spread] == pytest.approx([push[0]] * 2, rel=1e-4)
    assert shown.item() == pytest.approx(losses.losses(outputs, targets).sum().item()) and count == 300
    assert loss.item() != pytest.approx(shown.item(), rel=0.05)


def test_what_is_measured_is_what_answers_and_beats_the_baselines(run, in_process):
    facts, again, pipe = facts_of(run), headway.evaluate(run), headway.load(run)
    assert facts["task"] == pipe.task == "multi_column" and facts["data"]["tasks"] == TASKS
    assert again["val_loss"] == pytest.approx(facts["metrics"]["val_loss"], abs=1e-6)
    columns, usual, linear = (one["columns"] for one in (again, *facts["baselines"]))
    assert columns["queue"]["accuracy"] > 0.95 > usual["queue"]["accuracy"]
    assert columns["stars"]["quadratic_kappa"] > 0.8 and columns["tags"]["micro_f1"] > 0.6 > usual["tags"]["micro_f1"]
    assert columns["price"]["mean_absolute_error"] < 60 < usual["price"]["mean_absolute_error"]
    assert linear["queue"]["accuracy"] == 1.0 and "r2" in linear["price"]
    first, second = pipe(TEXTS)
    assert (first["queue"]["label"], second["queue"]["label"]) == ("billing", "tech")
    assert first["stars"]["value"] > second["stars"]["value"] + 2
    assert first["tags"]["scores"]["vip"] > second["tags"]["scores"]["vip"]
    assert first["price"]["value"] > second["price"]["value"] + 200
    frame = pipe.predict(pd.DataFrame({"text": [TEXTS[0], None, TEXTS[1]]}, index=[7, 8, 9]))
    assert list(frame.index) == [7, 8, 9] and frame["queue"].fillna("none").tolist() == ["billing", "none", "tech"]
    assert frame["price"][9] == pytest.approx(second["price"]["value"], rel=1e-5)
    assert "  price: mean absolute error" in in_process.passed("evaluate", run)[0]
    worst, report = facts["shown"]["worst"][0], (run / "report.html").read_text()
    assert worst["predicted"].startswith("queue: ") and worst["label"].count(" | ") == len(NAMES) - 1
    assert all(word in report for word in ("Largest errors", "Metrics by column", "linear model on word"))


def test_a_file_of_answers_has_the_columns(run, tmp_path, in_process):
    shown = in_process.passed("predict", run, *TEXTS)[0].splitlines()
    assert shown[1].startswith("queue: tech\tstars: 1\trefund: 0\ttags: ")
    found = answered(in_process, "predict", run, tickets(tmp_path / "rows.csv", 9), tmp_path / "answers.csv")
    assert {"text", *NAMES, "queue: score: tech", "stars: value", "given: queue", "given: price"} <= set(found[0])
    assert len(found) == 9 and all(row["queue"] == row["given: queue"] for row in found if row["given: queue"])


def test_others_read_each_column(run, tmp_path):
    written = export(run, tmp_path / "hf")
    assert written.parity.passed, written.parity.problem
    ours = headway.load(run)(TEXTS)
    for name in NAMES:
        for one, other in zip(ours, others_answer(run, tmp_path / "hf" / name, TEXTS, top_k=None), strict=True):
            wanted = one[name]["scores"] if "scores" in one[name] else {"LABEL_0": one[name]["value"]}
            assert by_label(other) == pytest.approx(wanted, rel=1e-5, abs=1e-4), name


def test_onnx_has_an_output_for_each_column(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    written = export(run, tmp_path / "onnx", to="onnx")
    assert written.parity.passed, written.parity.problem
    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx")
    assert [output.name for output in session.get_outputs()] == [f"logits.{name}" for name in NAMES]
    pipe = headway.load(run)
    ids = np.array([pipe.tokenizer.encode(TEXTS[0], special=True)])
    given = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    given |= {"token_type_ids": np.zeros_like(ids)} if len(session.get_inputs()) > 2 else {}
    price = session.run(["logits.price"], given)[0]
    assert price[0, 0] == pytest.approx(pipe(TEXTS[0])["price"]["value"], rel=1e-5)


@pytest.mark.thorough
def test_verify_passes(run, in_process):
    check_verified(run, in_process)


def test_columns_may_be_called_like_parts_of_an_answer(records, tmp_path, in_process):
    named = {"queue": "label", "stars": "scores", "tags": "labels", "price": "value"}
    frame = pd.read_csv(records).rename(columns=named)
    headway.train(frame, label_column=list(named.values()), steps=4, out=tmp_path / "run", **TINY)
    pipe = headway.load(tmp_path / "run", task="multi_column")
    answer = pipe(TEXTS[0])
    assert set(answer) == set(to_compare(answer)) == set(named.values()) and answer["label"]["label"] in QUEUES
    found = pipe.predict(frame.head(3)[["text"]])
    assert {*named.values(), "label: score: billing", "scores: value"} <= set(found.columns)
    in_process.passed("verify", tmp_path / "run")


def test_names_have_commas_and_fields_of_others_and_labels_gaps(records, tmp_path):
    frame = pd.read_csv(records).rename(columns={"queue": "queue, team", "price": "queue, team: score"})
    frame["refund"] = frame["refund"].where(frame.index % 7 > 0)  # pandas makes 1.0 of 1 where there are gaps
    names = ["queue, team", "refund", "queue, team: score"]
    headway.train(frame, label_column=names, steps=2, out=tmp_path / "run", **TINY)
    pipe = headway.load(tmp_path / "run", task="multi_column")
    assert list(pipe(TEXTS[0])) == names
    found = pipe.predict(frame.head(3)[["text"]])
    assert len({*found.columns}) == len(found.columns) and found["queue, team: score"].min() > 1000
    assert found["predicted: queue, team: score"].max() <= 1
    frame["text"] += " again"
    frame.astype({"refund": "Int64"}).to_csv(tmp_path / "rows.csv", index=False)
    one, other = (headway.evaluate(tmp_path / "run", data)["columns"] for data in (frame, tmp_path / "rows.csv"))
    assert one["refund"] == other["refund"]


def test_from_a_pretrained_model_and_from_its_own_run(run, records, classifier_run, tmp_path):
    new, own = heads(records, [classifier_run, run], tmp_path, label_column=NAMES)
    assert new == "a new one, which starts untrained" and own.startswith(f"the one of {run}")
    columns = facts_of(tmp_path / "from1")["metrics"]["columns"]
    assert {name: one["task"] for name, one in columns.items()} == TASKS and "r2" in columns["price"]
    before, after = (json.loads((place / "config.json").read_text()) for place in (run, tmp_path / "from1"))
    assert before["columns"] == after["columns"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"price": "many"}, "column 'price' holds 'many', which is no value for regression (row 9)"),
        ({"price": "inf"}, "column 'price' holds 'inf', which is no value for regression (row 9)"),
        ({"stars": "0"}, "column 'stars' holds '0', which is no value for ratings: a level is"),
    ],
)
def test_a_bad_cell_is_one_message(changed, said, tmp_path):
    check_refused(tickets(tmp_path / "rows.csv", **changed), said, tmp_path / "run", label_column=NAMES)


def test_bad_rows_can_be_skipped_and_an_empty_column_is_named(tmp_path):
    file = tickets(tmp_path / "rows.csv", price="many")
    found = headway.train(file, label_column=NAMES, out=tmp_path / "run", steps=1, on_bad_row="skip", **TINY)
    kept = facts_of(tmp_path / "run")["metrics"]["columns"]
    assert found["columns"]["price"]["r2"] == kept["price"]["r2"]
    assert "1 row without a value left out (row 9)" in " ".join(facts_of(tmp_path / "run")["data"]["warnings"])
    lines = file.read_text().splitlines()
    (tmp_path / "empty.csv").write_text("\n".join([f"{lines[0]},nothing", *(f"{line}," for line in lines[1:])]))
    said = "column 'nothing' holds no label"
    check_refused(tmp_path / "empty.csv", said, tmp_path / "no", label_column=["refund", "nothing"])


def test_a_class_that_was_never_learnt_is_named(run, tmp_path):
    with pytest.raises(InputError, match=r"'sales', .*: the model's are billing, tech \(row 9\)"):
        headway.evaluate(run, tickets(tmp_path / "rows.csv", queue="sales"))


def test_a_model_that_does_not_say_its_columns_is_refused(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "headway.json").unlink()
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    for columns in ({"queue": {"task": "classification", "labels": ["a", "b"]}}, ["queue"], {"price": {"labels": []}}):
        (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"columns": columns}))
        with pytest.raises(InputError, match="columns does not say what"):
            headway.load(tmp_path / "run")
