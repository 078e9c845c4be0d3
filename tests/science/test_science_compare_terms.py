"""``headway compare``: one recipe and the same windows for all, no model without a step, and advice by paired tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.errors import InputError
from headway.science import compare as comparing
from headway.science.compare import advice
from headway.training.evaluation.metric import ACCURACY, BITS_PER_BYTE
from headway.training.store.facts import read_facts, write_facts
from headway.workflows.evaluate import evaluate

Asked = list[dict[str, Any]]


def compared(in_process: Callable, *words: object) -> dict[str, Any]:
    return in_process.json("compare", *words, "--quiet")


@pytest.mark.thorough
def test_all_have_one_optimizer_and_precision(corpus: Path, tmp_path: Path, in_this_process: Asked, in_process):
    words = (corpus, "--models", "transformer,gru", "--length", "16")
    found = compared(in_process, *words, "--out", tmp_path / "one")
    assert {(row["optimizer"], row["precision"]) for row in found["rows"]} == {("adamw", "float32")}
    assert all(one["optimizer"] == "adamw" and one["precision"] == "float32" for one in in_this_process)
    assert in_this_process[1]["products"] == found["rows"][0]["size"]["products"]
    assert any("Trained with adamw in float32" in line for line in found["advice"])
    table = in_process("compare", *words, "--out", tmp_path / "one", "--quiet")[1]
    assert "optimizer" in table.splitlines()[0] and "precision" in table.splitlines()[0] and "adamw" in table
    assert "<th" in (page := (tmp_path / "one" / "report.html").read_text()) and "float32" in page
    in_this_process.clear()
    own = compared(in_process, *words, "--optimizer", "auto", "--precision", "auto", "--out", tmp_path / "own")
    assert [row["optimizer"] for row in own["rows"]] == ["muon", "adamw"]
    assert not any("optimizer" in one or "precision" in one for one in in_this_process)
    assert any("muon" in line and "adamw" in line for line in own["advice"])
    in_process.refused("compare", *words, "--optimizer", "sgd", "--out", tmp_path / "no", said=("--optimizer", "muon"))


@pytest.mark.thorough
def test_a_pretrained_model_keeps_its_recipe(
    rows: Path, classifier_run: Path, tmp_path: Path, in_this_process: Asked, in_process: Callable
):
    words = ("--models", f"{classifier_run},rnn", "--optimizer", "muon", "--out", tmp_path / "out")
    found = compared(in_process, rows, *words)
    assert [one.get("optimizer") for one in in_this_process] == [None, "muon"]
    assert [row["pretrained"] for row in found["rows"]] == [True, False]
    assert any("keeps its recipe of fine-tuning" in line for line in found["advice"])


@pytest.mark.thorough
def test_curves_have_points_on_the_same_windows_and_results_are_of_all(
    corpus: Path, tmp_path: Path, in_this_process: Asked, in_process: Callable
):
    words = ("--models", "transformer,rnn", "--length", "8", "--time", "9s", "--out", tmp_path / "out")
    found = compared(in_process, corpus, *words)
    every = set()
    for row, asked in zip(found["rows"], in_this_process, strict=True):
        assert asked["evaluations"] == "10" and asked["validation_windows"] == "9"
        run = tmp_path / "out" / row["run"]
        facts = read_facts(run) or {}
        every.add(facts["plan"]["validation_every"])
        assert row["values"][0] != facts["metrics"]["bits_per_byte"], "training saw a part of the windows"
        whole = headway.evaluate(run)["bits_per_byte"]
        assert facts["metrics"]["bits_per_byte"] == pytest.approx(whole, abs=1e-5), "the part that training measured"
    assert len(every) == 1 and every.pop() > 1


def test_a_part_of_the_windows_is_measured_where_that_is_asked_for(
    corpus: Path, rows: Path, tmp_path: Path, tiny: dict
):
    found = headway.train(corpus, **{**tiny, "steps": 10}, validation_windows=5, out=tmp_path / "run", quiet=True)
    plan = (read_facts(tmp_path / "run") or {})["plan"]
    counted = evaluate(tmp_path / "run")["examples"]
    assert plan["validation_every"] > 1 and 3 * plan["length"] <= counted <= 5 * plan["length"]
    assert evaluate(tmp_path / "run")["val_loss"] == pytest.approx(found["val_loss"], abs=1e-6)
    with pytest.raises(InputError, match="validation-windows is for language_modeling and masked_lm"):
        headway.train(rows, **tiny, validation_windows=5, out=tmp_path / "rows", quiet=True)


def untrained(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """The trainings of these kinds take no step."""
    honest = comparing.trained

    def trained(words: list[str], place: Path, say: Callable[[str], None]) -> Any:
        peak = honest(words, place, say)
        if words[words.index("--model") + 1] in names:
            write_facts(place, {**(read_facts(place) or {}), "steps": 0})
        return peak

    monkeypatch.setattr(comparing, "trained", trained)


@pytest.mark.thorough
def test_a_model_without_a_step_is_left_out_by_name(
    rows: Path, tmp_path: Path, in_this_process: Asked, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    untrained(monkeypatch, "bow")
    words = (rows, "--models", "bow,cnn", "--out", tmp_path / "out")
    found = compared(in_process, *words)
    why = "not trained: the time ended before its first step"
    assert found["rows"][0] == {"model": "bow", "failed": why} and found["rows"][1]["mean"] > 0
    assert found["advice"][0] == f"bow is left out: {why}." and not any("take bow" in line for line in found["advice"])
    assert why in in_process("compare", *words, "--quiet")[1]
    assert why in (tmp_path / "out" / "report.html").read_text()
    assert "bow" not in (tmp_path / "out" / "quality.svg").read_text()
    untrained(monkeypatch, "bow", "cnn")
    status, _, said = in_process("compare", rows, "--models", "bow,cnn", "--time", "7s", "--out", tmp_path / "none")
    assert status == 2 and "--time 7s ended before a first step" in said
    words = (rows, "--models", "bow,cnn", "--match", "tokens", "--out", tmp_path / "tokens")
    in_process.refused("compare", *words, said="ended before a first step")


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_intervals_are_of_rows_and_advice_follows_from_paired_ones(
    seeds: int, rows: Path, tmp_path: Path, in_this_process: Asked, in_process: Callable
):
    found = compared(in_process, rows, "--models", "transformer,bow", "--seeds", seeds, "--out", tmp_path / "out")
    best = max(found["rows"], key=lambda row: row["mean"])
    if seeds == 2:
        assert {row["interval"] for row in found["rows"]} == {None}
        assert any(line.startswith("Two seeds have no interval") for line in found["advice"])
        return
    for row in found["rows"]:
        low, high = row["interval"]
        assert low < row["mean"] < high and high - low > 0.05, "a few dozen rows are never this sure"
        assert (row["behind_interval"] is None) is (row is best) and "each" not in row
    (other,) = (row for row in found["rows"] if row is not best)
    clear = other["behind_interval"][0] > 0
    assert any(line.startswith(f"Take {best['model']}") for line in found["advice"]) is clear
    assert any("may be as good" in line for line in found["advice"]) is not clear


def ranked(metric: Any, *each: list[np.ndarray], **more: Any) -> list[dict[str, Any]]:
    """Rows of models with these units of each seed, tested against the best of them."""
    found = []
    for name, units in zip("abcd", each, strict=False):
        loss = metric is BITS_PER_BYTE
        nats = [float(one[:, 0].sum() / one[:, 1].sum()) for one in units]
        values = [2 * nat for nat in nats] if loss else [float((one[:, 0] == one[:, 1]).mean()) for one in units]
        usual = {"throughput": 1.0, "parameters": 1, "memory_mb": None, "lengths": [], "size": {"vocab_size": 7}}
        usual |= {"optimizer": "adamw", "precision": "float32", "pretrained": False, "values": values}
        metrics = [{"val_loss": nat} for nat in nats]
        found.append(
            {"model": name, "mean": float(np.mean(values)), "each": units, "metrics": metrics, **usual, **more}
        )
    comparing._test(found, metric)
    return found


def told(rows: list[dict[str, Any]], metric: str, better: int) -> str:
    result = {"rows": rows, "metric": metric, "seeds": 1, "trials": 1, "measured_on": "test.csv"}
    return " ".join(advice(result, better=better))


def test_one_row_of_thirty_is_no_reason_and_a_loss_that_all_windows_show_is():
    true = np.arange(30) % 2
    one, other = true.copy(), true.copy()
    one[:3], other[:4] = 1 - one[:3], 1 - other[:4]
    found = ranked(ACCURACY, *([np.stack([guess, true], axis=1).astype(float)] for guess in (one, other)))
    assert found[0]["mean"] == 0.9 and found[1]["behind_interval"][0] < 0 < found[1]["behind_interval"][1]
    said = told(found, "accuracy", 1)
    assert "Take" not in said and "may be as good, since the interval includes 0: b (0.8667" in said
    draw = np.random.default_rng(0)
    hard = draw.normal(2.0, 0.5, 40)  # windows differ by more than the models
    losses = [np.stack([256 * (hard + apart + draw.normal(0, 0.01, 40)), np.full(40, 256.0)], 1) for apart in (0, 0.05)]
    found = ranked(BITS_PER_BYTE, *([one] for one in losses))
    low, high = found[1]["behind_interval"]
    assert low < 2 * 0.05 < high and high - low < 0.05, "in the unit of bits per byte"
    assert found[0]["interval"][0] < found[0]["mean"] < found[0]["interval"][1]
    assert told(found, "bits_per_byte", -1).startswith("Take a")


def test_models_of_other_tokens_have_no_paired_test():
    draw = np.random.default_rng(1)
    a, b = (np.stack([256 * draw.normal(2.0, 0.5, 40), np.full(40, 256.0)], axis=1) for _ in range(2))
    assert sum(row["behind_interval"] is not None for row in ranked(BITS_PER_BYTE, [a], [b])) == 1
    assert not any(row["behind_interval"] for row in ranked(BITS_PER_BYTE, [a], [b[:-1]]))
