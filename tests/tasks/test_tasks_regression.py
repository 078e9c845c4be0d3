"""A number for each text: found, learnt in its own unit, measured as answered, saved, and read by others."""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.data.open.read import read
from headway.errors import InputError
from headway.tasks.inspection import worst_rows
from headway.tasks.regression.task import SquaredError
from headway.workflows.export import export
from headway.workflows.input import detect

ITEMS = {"table": 120.0, "chair": 40.0, "lamp": 25.0, "sofa": 600.0, "bed": 450.0, "desk": 180.0}
STATES = {"oak": 1.6, "plastic": 0.5, "used": 0.6, "large": 1.4}
TINY: dict[str, Any] = {"d_model": 32, "layers": 1, "heads": 2, "threads": 1, "quiet": True, "layout": "bert"}


def offers(
    path: Path, write: Callable[[float], str] = "{:.2f}".format, count: int = 300, scale: float = 1.0, **changed: str
) -> Path:
    """Offers whose words say the price."""
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["description", "price"])
        writer.writeheader()
        for number in range(count):
            item, states = draw.choice(list(ITEMS)), draw.sample(list(STATES), draw.randint(0, 2))
            price = ITEMS[item] * draw.lognormvariate(0, 0.05)
            for state in states:
                price *= STATES[state]
            row = {"description": f"{' '.join([*states, item])} for sale {number}", "price": write(scale * price)}
            writer.writerow(row | (changed if number == 7 else {}))
    return path


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return offers(tmp_path_factory.mktemp("rows") / "prices.csv", count=500)


@pytest.fixture(scope="module")
def run(prices: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; look, but do not write."""
    out = tmp_path_factory.mktemp("runs") / "prices"
    headway.train(prices, out=out, steps=300, learning_rate=3e-3, **TINY)
    return out


def test_metrics_are_those_of_scikit_learn_and_scipy():
    metrics, stats = pytest.importorskip("sklearn.metrics"), pytest.importorskip("scipy.stats")
    draw = torch.Generator().manual_seed(0)
    wanted = 50 + 10 * torch.randn(40, generator=draw)
    outputs = wanted + 5 * torch.randn(40, generator=draw)
    loss = SquaredError(spread=10.0)
    assert loss.losses(outputs, wanted).mean().item() == pytest.approx(
        metrics.mean_squared_error(wanted, outputs) / 100
    )
    measured = loss.measured(outputs, wanted)
    assert measured["mean_absolute_error"] == pytest.approx(metrics.mean_absolute_error(wanted, outputs))
    assert measured["r2"] == pytest.approx(metrics.r2_score(wanted, outputs))
    assert measured["spearman"] == pytest.approx(stats.spearmanr(wanted, outputs).statistic)
    alone = loss.measured(outputs[:1], wanted[:1])
    assert alone["r2"] is None and alone["spearman"] is None
    assert loss.measured(torch.full((40,), 50.0), wanted)["spearman"] is None


def test_what_is_measured_is_what_answers_and_beats_the_baselines(run: Path, prices: Path):
    facts, again, pipe = json.loads((run / "headway.json").read_text()), headway.evaluate(run), headway.load(run)
    for key in ("mean_absolute_error", "r2", "spearman", "val_loss"):
        assert again[key] == pytest.approx(facts["metrics"][key], rel=1e-5), key
    assert again["r2"] > 0.75 and facts["task"] == "regression" and facts["verdict"]["metric"] == "mean_absolute_error"
    assert [line["name"].split(" on ")[0] for line in facts["baselines"]] == ["mean", "median", "linear model"]
    assert facts["baselines"][0]["r2"] == pytest.approx(0, abs=0.1)
    assert facts["baselines"][2]["mean_absolute_error"] < facts["baselines"][0]["mean_absolute_error"]
    sofa, lamp = pipe(["large oak sofa for sale", "used lamp for sale"])
    assert set(sofa) == {"value"} and sofa["value"] > max(400, 4 * lamp["value"])
    assert pipe("used lamp for sale")["value"] == pytest.approx(lamp["value"], rel=1e-5)
    with pytest.warns(UserWarning, match="no token that the model knows: no number is given"):
        assert pipe("qqq") == {"value": None, "known": 0.0}
    other = headway.evaluate(run, prices)
    assert other["mean_absolute_error"] == pytest.approx(again["mean_absolute_error"], rel=1e-5)


def test_looking_for_the_largest_errors_leaves_the_model_as_it_was(
    prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen = []

    def in_both_modes(data: Any, model: Any, chosen: Any, texts: Any) -> dict[str, Any]:
        for mode in (True, False):
            told = worst_rows(data, model.train(mode), chosen, texts)
            seen.append((mode, model.training, told))
        return told

    monkeypatch.setattr("headway.tasks.rows_data.worst_rows", in_both_modes)
    headway.train(prices, out=tmp_path / "run", steps=2, dropout=0.5, **TINY)
    assert seen and all(before == after for before, after, _ in seen)
    assert all(one[2] == other[2] for one, other in zip(seen[::2], seen[1::2], strict=True))  # dropout is off in both


def test_the_report_shows_the_largest_errors(run: Path):
    shown, pipe = json.loads((run / "headway.json").read_text())["shown"], headway.load(run)
    errors = [abs(pipe(row["text"])["value"] - float(row["label"])) for row in shown["worst"]]
    assert len(errors) == 10 and errors == sorted(errors, reverse=True)
    assert [row["predicted"] for row in shown["worst"]] == [
        f"{pipe(row['text'])['value']:.3g}" for row in shown["worst"]
    ]
    report = (run / "report.html").read_text()
    assert "Largest errors" in report and f"{shown['looked_at']} validation rows were checked." in report


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_changes_nothing(run: Path, scale: float, tmp_path: Path):
    """Prices in another currency are learnt as well; the loss, which has no unit, is nearly the same."""
    file = offers(tmp_path / "other.csv", "{:.12g}".format, 500, scale)
    headway.train(file, out=tmp_path / "run", steps=300, learning_rate=3e-3, **TINY)
    one, other = (json.loads((path / "headway.json").read_text())["metrics"] for path in (run, tmp_path / "run"))
    assert other["val_loss"] == pytest.approx(one["val_loss"], rel=0.2, abs=0.02)
    assert other["mean_absolute_error"] == pytest.approx(scale * one["mean_absolute_error"], rel=0.25)


@pytest.mark.thorough
def test_numbers_far_from_zero_are_learnt_in_every_precision(tmp_path: Path):
    """Years: in bfloat16 the nearest to 2000 are 1992 and 2008."""
    draw, file = random.Random(0), tmp_path / "years.csv"
    rows = [(draw.randrange(190, 202), draw.randrange(10)) for _ in range(400)]
    lines = [f"a film of the decade {decade} in year {year},{10 * decade + year}\n" for decade, year in rows]
    file.write_text("".join(["text,target\n", *lines]))
    for precision in ("float32", "bfloat16"):
        found = headway.train(
            file,
            task="regression",
            label_column="target",
            out=tmp_path / precision,
            steps=300,
            learning_rate=3e-3,
            precision=precision,
            **TINY,
        )
        assert found["mean_absolute_error"] < 6, precision


def test_the_command_answers(run: Path, tmp_path: Path, in_process: Callable):
    status, out, _ = in_process("predict", run, "large oak sofa for sale", "used lamp for sale")
    first, second = out.splitlines()
    assert status == 0 and first.endswith("\tlarge oak sofa for sale")
    assert float(first.split("\t")[0]) > float(second.split("\t")[0])
    file, to = offers(tmp_path / "rows.csv", count=9), tmp_path / "answers.csv"
    status, _, err = in_process("predict", run, file, "--to", to)
    assert status == 0, err
    with to.open(newline="") as lines:
        table = list(csv.DictReader(lines))
    assert list(table[0]) == ["text", "value", "known", "description", "price"] and len(table) == 9
    status, out, _ = in_process("predict", run, "large oak table for sale", "--json")
    assert status == 0 and list(json.loads(out)["results"][0]) == ["value"]


def test_others_read_the_same(run: Path, tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    written = export(run, tmp_path / "hf")
    assert written.parity.passed, written.parity.problem
    texts = ["large oak table for sale", "used lamp for sale 3", "a bed"]
    ours, again = headway.load(run)(texts), headway.load(tmp_path / "hf")
    assert again.task == "regression" and [one["value"] for one in again(texts)] == pytest.approx(
        [one["value"] for one in ours], rel=1e-6
    )
    other, columns = offers(tmp_path / "other.csv", count=50), {"text_column": "description", "label_column": "price"}
    measured, wanted = (headway.evaluate(place, other, **columns) for place in (tmp_path / "hf", run))
    assert measured["mean_absolute_error"] == pytest.approx(wanted["mean_absolute_error"], rel=1e-5)
    theirs = transformers.pipeline("text-classification", str(tmp_path / "hf"), device="cpu")(texts)
    assert [one["score"] for one in theirs] == pytest.approx([one["value"] for one in ours], rel=1e-5)


@pytest.mark.thorough
def test_verify_passes(run: Path, in_process: Callable):
    status, out, err = in_process("verify", run, "--json", "--quiet", "--threads", "1")
    checks = {check["name"]: check["passed"] for check in json.loads(out.splitlines()[-1])["checks"]}
    assert status == 0 and all(checks[name] for name in ("batch", "accumulation", "export", "checkpoints", "resume")), (
        err
    )


def test_from_a_pretrained_model_and_from_its_own_run(
    run: Path, prices: Path, classifier_run: Path, lm_run: Path, tmp_path: Path
):
    few = {"steps": 4, "threads": 1, "quiet": True}
    headway.train(prices, from_model=str(classifier_run), out=tmp_path / "new", **few)
    on = headway.train(prices, from_model=str(run), out=tmp_path / "on", **few)
    heads = []
    for name in ("new", "on"):
        facts = json.loads((tmp_path / name / "headway.json").read_text())
        heads += [one["value"] for one in facts["decisions"] if one["what"] == "head"]
    assert heads == ["a new one, which starts untrained", f"the one of {run}"] and on["r2"] > 0.7
    rows = tmp_path / "labels.csv"
    rows.write_text("text,label\n" + "".join(f"{word} for sale {n},{word}\n" for n in range(20) for word in ITEMS))
    headway.train(rows, from_model=str(run), out=tmp_path / "classes", **few)  # another problem, a new head
    assert headway.load(tmp_path / "classes").task == "classification"
    with pytest.raises(InputError, match=r"is a decoder, whose head .* has no bias"):
        headway.train(prices, from_model=str(lm_run), out=tmp_path / "decoder", **few)


def test_numbers_are_read_as_people_write_them_in_every_verb(tmp_path: Path):
    def german(price: float) -> str:
        return f"{price:,.2f} €".translate(str.maketrans(",.", ".,"))

    file, plain = offers(tmp_path / "preise.csv", german), offers(tmp_path / "plain.csv")
    found = [
        headway.train(one, task="regression", out=tmp_path / one.stem, steps=5, **TINY)["mean_absolute_error"]
        for one in (file, plain)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-4) and detect(read(file)).task == "regression"
    again = offers(tmp_path / "again.csv", german, 40)
    assert headway.evaluate(tmp_path / "preise", again)["examples"] == 40


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "words": ({"price": "much"}, "'much', which is no value for regression (row 9)"),
    "an infinity": ({"price": "inf"}, "'inf', which is no value for regression (row 9)"),
    "one value": ({"write": lambda price: "7"}, "column 'price' holds one number only (7)"),
    "two currencies": (
        {"price": "$ 12", "write": "€ {:.2f}".format},
        "rows.csv: column 'price': the numbers are in $ and in € ($ 12",
    ),
    "two marks": ({"price": "1,5"}, "decimals are written in two ways"),
    "unclear thousands": (
        {"write": lambda price: f"{1000 + int(price):,}"},
        "1,007 could be 1007 or 1.007",
    ),
    "a hole": ({"price": ""}, "1 row has no label"),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_numbers_are_one_message(what: str, tmp_path: Path):
    changed, said = WRONG[what]
    file = offers(tmp_path / "rows.csv", **changed)
    with pytest.raises(InputError) as raised:
        headway.train(file, task="regression", out=tmp_path / "run", steps=1, **TINY)
    assert said in str(raised.value) and not (tmp_path / "run").exists()


def test_rows_without_a_number_can_be_left_out(tmp_path: Path):
    file = offers(tmp_path / "rows.csv", price="much")
    headway.train(file, task="regression", on_bad_row="skip", out=tmp_path / "run", steps=1, **TINY)
    facts = json.loads((tmp_path / "run" / "headway.json").read_text())["data"]
    assert any("1 row without a value left out" in line for line in facts["warnings"])


def test_numbers_that_are_numbers_need_no_decimal_mark(tmp_path: Path):
    """The run's own file has decimal commas; frames, Parquet and JSON hold numbers, which mean themselves."""
    pandas = pytest.importorskip("pandas")
    run = tmp_path / "run"
    headway.train(
        offers(tmp_path / "t.csv", lambda price: f"{price:.2f} €".replace(".", ",")), out=run, steps=2, **TINY
    )
    texts = [f"large oak {item} for sale" for item in ITEMS]
    answers = [one["value"] for one in headway.load(run)(texts)]
    for prices in ([189.271 + at for at in range(6)], [189.25 + at for at in range(6)], [float(at) for at in range(6)]):
        frame = pandas.DataFrame({"description": texts, "price": prices})
        frame.to_parquet(tmp_path / "t.parquet")
        frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
        wanted = sum(abs(one - price) for one, price in zip(answers, prices, strict=True)) / 6
        for data in (frame, tmp_path / "t.parquet", tmp_path / "t.jsonl"):
            assert headway.evaluate(run, data)["mean_absolute_error"] == pytest.approx(wanted, rel=1e-4)
    (tmp_path / "euro.csv").write_text("description,price\n" + "".join(f"{text},1.234\n" for text in texts))
    wanted = sum(abs(one - 1234) for one in answers) / 6
    assert headway.evaluate(run, tmp_path / "euro.csv")["mean_absolute_error"] == pytest.approx(wanted, rel=1e-4)
    (tmp_path / "dollar.csv").write_text("description,price\n" + "".join(f"{text},$5\n" for text in texts))
    with pytest.raises(InputError, match=r"column 'price': \$5 is not in €, as the numbers of the model are"):
        headway.evaluate(run, tmp_path / "dollar.csv")


def test_a_price_list_with_many_cells_that_are_none_is_no_language_model(tmp_path: Path):
    rows = [{"text": f"lamp {n}", "price": "on request" if n % 6 == 0 else f"{n + 1}.50"} for n in range(120)]
    with pytest.raises(InputError, match="column 'price' holds 'on request', which is no value for regression"):
        headway.train(rows, out=tmp_path / "run", steps=1, **TINY)
    said = "100 of them are numbers, which --task regression learns, and names what is none, such as 'on request'"
    with pytest.raises(InputError, match=said):
        headway.train(rows, out=tmp_path / "run", task="classification", label_column="price", steps=1, **TINY)


@pytest.mark.parametrize("cell", ["on request", "inf", "10-20", "12 or 13"])
def test_a_cell_that_is_no_number_is_named_with_its_row(cell: str, tmp_path: Path):
    data = offers(tmp_path / "t.csv", price=cell)
    with pytest.raises(InputError) as raised:
        headway.train(data, out=tmp_path / "run", steps=1, **TINY)
    assert f"holds {cell!r}, which is no value for regression (row 9)" in str(raised.value)
    headway.train(data, out=tmp_path / "run", steps=1, on_bad_row="skip", **TINY)
    facts = json.loads((tmp_path / "run" / "headway.json").read_text())
    assert facts["task"] == "regression" and "1 row without a value left out (row 9)" in facts["data"]["warnings"]
