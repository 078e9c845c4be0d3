"""A number for each text: found, learnt in its own unit, measured as answered, saved, and read by others."""

import random

import pandas
import pytest
import torch
from faults_harness import facts_of
from rows_kit import TINY, answered, check_refused, check_verified, heads, others_answer, table, trained

import headway
from headway.data.open.read import read
from headway.errors import InputError
from headway.tasks.inspection import worst_rows
from headway.tasks.regression.task import SquaredError
from headway.workflows.input import detect

ITEMS = {"table": 120.0, "chair": 40.0, "lamp": 25.0, "sofa": 600.0, "bed": 450.0, "desk": 180.0}
STATES = {"oak": 1.6, "plastic": 0.5, "used": 0.6, "large": 1.4}


def offers(path, write="{:.2f}".format, count=300, scale=1.0, **changed):
    """Offers whose words say the price."""
    draw, rows = random.Random(0), []
    for number in range(count):
        item, states = draw.choice(list(ITEMS)), draw.sample(list(STATES), draw.randint(0, 2))
        price = ITEMS[item] * draw.lognormvariate(0, 0.05)
        for state in states:
            price *= STATES[state]
        text = f"{' '.join([*states, item])} for sale {number}"
        rows.append({"description": text, "price": write(scale * price)})
    return table(path, rows, **changed)


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    return offers(tmp_path_factory.mktemp("rows") / "prices.csv", count=500)


@pytest.fixture(scope="module")
def run(prices, tmp_path_factory):
    return trained(prices, tmp_path_factory.mktemp("prices"), steps=300)


def test_metrics_are_those_of_scikit_learn_and_scipy():
    metrics, stats = pytest.importorskip("sklearn.metrics"), pytest.importorskip("scipy.stats")
    draw = torch.Generator().manual_seed(0)
    wanted = 50 + 10 * torch.randn(40, generator=draw)
    outputs = wanted + 5 * torch.randn(40, generator=draw)
    loss, squared = SquaredError(spread=10.0), metrics.mean_squared_error(wanted, outputs)
    assert loss.losses(outputs, wanted).mean().item() == pytest.approx(squared / 100)
    measured = loss.measured(outputs, wanted)
    assert measured["mean_absolute_error"] == pytest.approx(metrics.mean_absolute_error(wanted, outputs))
    assert measured["r2"] == pytest.approx(metrics.r2_score(wanted, outputs))
    assert measured["spearman"] == pytest.approx(stats.spearmanr(wanted, outputs).statistic)
    alone = loss.measured(outputs[:1], wanted[:1])
    assert alone["r2"] is None and alone["spearman"] is None
    assert loss.measured(torch.full((40,), 50.0), wanted)["spearman"] is None


def test_what_is_measured_is_what_answers_and_beats_the_baselines(run, prices):
    facts, again, pipe = facts_of(run), headway.evaluate(run), headway.load(run)
    for key in ("mean_absolute_error", "r2", "spearman", "val_loss"):
        assert again[key] == pytest.approx(facts["metrics"][key], rel=1e-5), key
    assert again["r2"] > 0.75 and facts["task"] == "regression" and facts["verdict"]["metric"] == "mean_absolute_error"
    mean, median, linear = facts["baselines"]
    assert [mean["name"], median["name"], linear["name"].split(" on ")[0]] == ["mean", "median", "linear model"]
    assert mean["r2"] == pytest.approx(0, abs=0.1) and linear["mean_absolute_error"] < mean["mean_absolute_error"]
    sofa, lamp = pipe(["large oak sofa for sale", "used lamp for sale"])
    assert set(sofa) == {"value"} and sofa["value"] > max(400, 4 * lamp["value"])
    assert pipe("used lamp for sale")["value"] == pytest.approx(lamp["value"], rel=1e-5)
    with pytest.warns(UserWarning, match="no token that the model knows: no number is given"):
        assert pipe("qqq") == {"value": None, "known": 0.0}
    other = headway.evaluate(run, prices)
    assert other["mean_absolute_error"] == pytest.approx(again["mean_absolute_error"], rel=1e-5)


def test_looking_for_the_largest_errors_leaves_the_model_as_it_was(prices, tmp_path, monkeypatch):
    seen = []

    def in_both_modes(data, model, chosen, texts):
        for mode in (True, False):
            told = worst_rows(data, model.train(mode), chosen, texts)
            seen.append((mode, model.training, told))
        return told

    monkeypatch.setattr("headway.tasks.rows_data.worst_rows", in_both_modes)
    headway.train(prices, out=tmp_path / "run", steps=2, dropout=0.5, **TINY)
    assert seen and all(before == after for before, after, _ in seen)
    assert all(one[2] == other[2] for one, other in zip(seen[::2], seen[1::2], strict=True))  # dropout is off in both


def test_the_report_shows_the_largest_errors(run):
    shown, pipe, report = facts_of(run)["shown"], headway.load(run), (run / "report.html").read_text()
    values = [pipe(row["text"])["value"] for row in shown["worst"]]
    errors = [abs(value - float(row["label"])) for value, row in zip(values, shown["worst"], strict=True)]
    assert len(errors) == 10 and errors == sorted(errors, reverse=True)
    assert [row["predicted"] for row in shown["worst"]] == [f"{value:.3g}" for value in values]
    assert "Largest errors" in report and f"{shown['looked_at']} validation rows were checked." in report


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_changes_nothing(run, scale, tmp_path):
    """Prices in another currency are learnt as well; the loss, which has no unit, is nearly the same."""
    file = offers(tmp_path / "other.csv", "{:.12g}".format, 500, scale)
    one, other = (facts_of(path)["metrics"] for path in (run, trained(file, tmp_path, steps=300)))
    assert other["val_loss"] == pytest.approx(one["val_loss"], rel=0.2, abs=0.02)
    assert other["mean_absolute_error"] == pytest.approx(scale * one["mean_absolute_error"], rel=0.25)


@pytest.mark.thorough
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_numbers_far_from_zero_are_learnt_in_every_precision(precision, tmp_path):
    """Years: in bfloat16 the nearest to 2000 are 1992 and 2008."""
    draw, file = random.Random(0), tmp_path / "years.csv"
    rows = [(draw.randrange(190, 202), draw.randrange(10)) for _ in range(400)]
    lines = [f"a film of the decade {decade} in year {year},{10 * decade + year}\n" for decade, year in rows]
    file.write_text("".join(["text,target\n", *lines]))
    run = trained(file, tmp_path, task="regression", label_column="target", steps=300, precision=precision)
    assert facts_of(run)["metrics"]["mean_absolute_error"] < 6


def test_the_command_answers(run, tmp_path, in_process):
    lines = in_process.passed("predict", run, "large oak sofa for sale", "used lamp for sale")[0].splitlines()
    (sofa, text), (lamp, _) = (line.split("\t") for line in lines)
    assert text == "large oak sofa for sale" and float(sofa) > float(lamp)
    found = answered(in_process, "predict", run, offers(tmp_path / "rows.csv", count=9), tmp_path / "answers.csv")
    assert list(found[0]) == ["text", "value", "known", "description", "price"] and len(found) == 9
    assert list(in_process.json("predict", run, "large oak table for sale")["results"][0]) == ["value"]


def test_others_read_the_same(run, tmp_path):
    texts = ["large oak table for sale", "used lamp for sale 3", "a bed"]
    theirs = [one["score"] for one in others_answer(run, tmp_path / "hf", texts)]
    ours, again = [one["value"] for one in headway.load(run)(texts)], headway.load(tmp_path / "hf")
    assert again.task == "regression" and [one["value"] for one in again(texts)] == pytest.approx(ours, rel=1e-6)
    other, columns = offers(tmp_path / "other.csv", count=50), {"text_column": "description", "label_column": "price"}
    measured, wanted = (headway.evaluate(place, other, **columns) for place in (tmp_path / "hf", run))
    assert measured["mean_absolute_error"] == pytest.approx(wanted["mean_absolute_error"], rel=1e-5)
    assert theirs == pytest.approx(ours, rel=1e-5)


@pytest.mark.thorough
def test_verify_passes(run, in_process):
    check_verified(run, in_process)


def test_from_a_pretrained_model_and_from_its_own_run(run, prices, classifier_run, lm_run, tmp_path):
    found = heads(prices, [classifier_run, run], tmp_path)
    assert found == ["a new one, which starts untrained", f"the one of {run}"]
    assert facts_of(tmp_path / "from1")["metrics"]["r2"] > 0.7
    rows = [{"text": f"{word} for sale {n}", "label": word} for n in range(20) for word in ITEMS]
    heads(table(tmp_path / "labels.csv", rows), [run], tmp_path / "classes")  # another problem, a new head
    assert headway.load(tmp_path / "classes" / "from0").task == "classification"
    with pytest.raises(InputError, match=r"is a decoder, whose head .* has no bias"):
        heads(prices, [lm_run], tmp_path / "decoder")


def test_numbers_are_read_as_people_write_them_in_every_verb(tmp_path):
    def german(price):
        return f"{price:,.2f} €".translate(str.maketrans(",.", ".,"))

    file, plain = offers(tmp_path / "preise.csv", german), offers(tmp_path / "plain.csv")
    found = [
        headway.train(one, task="regression", out=tmp_path / one.stem, steps=5, **TINY)["mean_absolute_error"]
        for one in (file, plain)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-4) and detect(read(file)).task == "regression"
    again = offers(tmp_path / "again.csv", german, 40)
    assert headway.evaluate(tmp_path / "preise", again)["examples"] == 40


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"price": "much"}, "'much', which is no value for regression (row 9)"),
        ({"price": "inf"}, "'inf', which is no value for regression (row 9)"),
        ({"write": lambda price: "7"}, "column 'price' holds one number only (7)"),
        ({"price": "$ 12", "write": "€ {:.2f}".format}, "rows.csv: column 'price': the numbers are in $ and in €"),
        ({"price": "1,5"}, "decimals are written in two ways"),
        ({"write": lambda price: f"{1000 + int(price):,}"}, "1,007 could be 1007 or 1.007"),
        ({"price": ""}, "1 row has no label"),
    ],
)
def test_bad_numbers_are_one_message(changed, said, tmp_path):
    check_refused(offers(tmp_path / "rows.csv", **changed), said, tmp_path / "run", task="regression")


def test_numbers_that_are_numbers_need_no_decimal_mark(tmp_path):
    """The run's own file has decimal commas; frames, Parquet and JSON hold numbers, which mean themselves."""
    run = tmp_path / "run"
    file = offers(tmp_path / "t.csv", lambda price: f"{price:.2f} €".replace(".", ","))
    headway.train(file, out=run, steps=2, **TINY)
    texts = [f"large oak {item} for sale" for item in ITEMS]
    answers = [one["value"] for one in headway.load(run)(texts)]

    def error(data):
        return headway.evaluate(run, data)["mean_absolute_error"]

    for prices in ([189.271 + at for at in range(6)], [189.25 + at for at in range(6)], [float(at) for at in range(6)]):
        frame = pandas.DataFrame({"description": texts, "price": prices})
        frame.to_parquet(tmp_path / "t.parquet")
        frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
        wanted = sum(abs(one - price) for one, price in zip(answers, prices, strict=True)) / 6
        for data in (frame, tmp_path / "t.parquet", tmp_path / "t.jsonl"):
            assert error(data) == pytest.approx(wanted, rel=1e-4)

    def written(price):
        return table(tmp_path / "written.csv", [{"description": text, "price": price} for text in texts])

    assert error(written("1.234")) == pytest.approx(sum(abs(one - 1234) for one in answers) / 6, rel=1e-4)
    with pytest.raises(InputError, match=r"column 'price': \$5 is not in €, as the numbers of the model are"):
        error(written("$5"))


def test_a_price_list_with_many_cells_that_are_none_is_no_language_model(tmp_path):
    rows = [{"text": f"lamp {n}", "price": "on request" if n % 6 == 0 else f"{n + 1}.50"} for n in range(120)]
    check_refused(rows, "'on request', which is no value for regression", tmp_path / "run")
    said = "100 of them are numbers, which --task regression learns, and names what is none, such as 'on request'"
    check_refused(rows, said, tmp_path / "run", task="classification", label_column="price")


@pytest.mark.parametrize("cell", ["on request", "inf", "10-20", "12 or 13"])
def test_a_cell_that_is_no_number_is_named_with_its_row_or_left_out(cell, tmp_path):
    data = offers(tmp_path / "t.csv", price=cell)
    check_refused(data, f"holds {cell!r}, which is no value for regression (row 9)", tmp_path / "run")
    headway.train(data, out=tmp_path / "run", steps=1, on_bad_row="skip", **TINY)
    facts = facts_of(tmp_path / "run")
    assert facts["task"] == "regression" and "1 row without a value left out (row 9)" in facts["data"]["warnings"]
