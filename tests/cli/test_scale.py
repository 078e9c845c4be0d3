"""``headway scale``: what it prints for runs that are made, and for a text."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headway.science.scaling.law import Law

LAW = Law(E=1.3, A=30.0, B=90.0, alpha=0.35, beta=0.38)


@pytest.fixture
def points(tmp_path: Path) -> Path:
    """21 runs of a law, and a larger one."""
    path = tmp_path / "points.csv"
    random = np.random.default_rng(3)
    pairs = [(n, d) for n in np.geomspace(5e4, 8e5, 5) for d in np.geomspace(4e5, 6e6, 4)]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["parameters", "tokens", "loss"])
        for n, d in [*pairs, (1.2e6, 1e7)]:
            table.writerow([n, d, LAW.loss(n, d) * np.exp(0.002 * random.standard_normal())])
    return path


def test_runs_of_others_are_fitted_foretold_and_drawn(points: Path, tmp_path: Path, in_process):
    out = tmp_path / "out"
    found = in_process.json("scale", "--points", points, "--predict", "1e18", "--out", out, "--quiet")
    assert {"task", "seconds", "out", "fit", "held_out", "rows", "optimal", "predicted", "curves", "plots"} <= set(
        found
    )
    fit = found["fit"]
    assert {"E", "A", "B", "alpha", "beta", "intervals", "counted"} <= set(fit)
    assert all(fit["intervals"][name][0] <= fit[name] <= fit["intervals"][name][1] for name in ("E", "alpha", "beta"))
    assert found["held_out"]["error"] < 0.02 and found["held_out"]["better_than_naive"]
    assert found["predicted"][0]["compute"] == 1e18 and len(found["rows"]) == 21
    for name in ("loss", "compute", "optimal"):
        assert (out / f"{name}.png").stat().st_size > 10_000 and (out / f"{name}.svg").exists()
    assert json.loads((out / "scaling.json").read_text())["fit"] == fit
    assert in_process("scale", out, "--predict", "1e18", "--json", "--quiet")[0] == 0, "and asked again, like a study"
    assert in_process("scale", "--points", out / "results.csv", "--out", out, "--quiet")[0] == 0
    assert (out / "results.csv").read_bytes() == points.read_bytes()
    (out / "plan.json").write_text("{}")
    in_process.refused("scale", "--points", points, "--out", out, said="holds a study of its own")
    assert in_process("scale", out, "--out", out, "--quiet")[0] == 0, "a study is fitted anew in its own directory"


def test_what_a_person_is_told(points: Path, in_process):
    said, _ = in_process.passed("scale", "--points", points, "--predict", "1e18")
    assert not (points.parent / "scaling.json").exists()
    assert "embeddings and output matrix included" in said and "alpha" in said
    assert "predicted" in said and "% off" in said and "1.00e+18 FLOPs" in said and "times the largest run" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a text to train on"),
        (["notes.txt", "--points", "points.csv"], "name a text to train on"),
        (["--points", "points.csv", "--predict", "much"], "--predict is 'much'"),
        (["--points", "points.csv", "--probe", "luck"], "--probe 'luck' is unknown"),
        (["--points", "points.csv", "--probe", "induction"], "--probe needs the models"),
        (["--points", "points.csv", "--plan"], "--plan is for a text"),
        (["--points", "points.csv", "--count", "blocks"], "no column 'parameters_without_embeddings'"),
        (["--points", "none.csv"], "none.csv: cannot be read"),
        (["--points", "points.csv", "--out", "."], ".: this directory holds other files and no study"),
        (["book.txt", "--out", ".", "--time", "5m"], ".: this directory holds other files and no study"),
        (["--points", "together.csv"], "varied together"),
    ],
)
def test_what_cannot_be_done(points: Path, words: list[str], said: str, in_process, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(points.parent)
    rows = "".join(f"{n},{20 * n},{LAW.loss(n, 20 * n)}\n" for n in range(100_000, 1_000_000, 100_000))
    Path("together.csv").write_text(f"parameters,tokens,loss\n{rows}")
    Path("book.txt").write_text("a text of some words.\n" * 3000)
    before = sorted(Path().iterdir())
    in_process.refused("scale", *words, said=said)
    assert sorted(Path().iterdir()) == before


def test_a_plan_trains_nothing(tmp_path: Path, in_process, monkeypatch: pytest.MonkeyPatch):
    from headway.science.scaling import study

    monkeypatch.setattr(study, "measured_speed", lambda *given: lambda shape: 5e10 / (1e6 + 6 * shape.parameters))
    monkeypatch.setattr(study, "faster_steps", lambda *given: "float32")
    words = np.random.default_rng(0).choice(["the", "cat", "sat", "on", "a", "mat", "while", "it", "rained"], 60_000)
    (tmp_path / "notes.txt").write_text(" ".join(words))
    monkeypatch.chdir(tmp_path)
    found = in_process.json("scale", "notes.txt", "--time", "5m", "--plan", "--quiet")
    assert len(found["rows"]) >= 8 and found["rows"][-1]["held_out"]
    assert found["planned_seconds"] <= 300 and not (tmp_path / "runs").exists()
    assert "not in the fit" in in_process.passed("scale", "notes.txt", "--time", "5m", "--plan", "--quiet")[0]
    in_process.refused("scale", "notes.txt", "--time", "9s", "--plan", "--quiet", said="too short for a grid")


def test_a_prediction_is_that_of_the_printed_law(points: Path, in_process):
    with points.open(newline="") as file:
        *rows, last = csv.reader(file)
    with points.open("w", newline="") as file:  # the run that is left out comes below every floor of the others
        csv.writer(file).writerows([*rows, [*last[:2], "1.21"]])
    found = in_process.json("scale", "--points", points, "--predict", "1e24", "--quiet")
    fit, (far,) = found["fit"], found["predicted"]
    by_hand = fit["E"] + fit["A"] / far["parameters"] ** fit["alpha"] + fit["B"] / far["tokens"] ** fit["beta"]
    assert far["loss"] == pytest.approx(by_hand, rel=1e-9) and far["loss"] > fit["E"]
    assert far["runs"] == fit["runs"] == len(found["rows"]) - 1


def test_a_test_that_leaves_too_few_sizes_is_refused_by_name(tmp_path: Path, in_process):
    sizes, path = (5e4, 2e5, 8e5), tmp_path / "points.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["name", "parameters", "tokens", "loss"])
        pairs = [(n, d) for n in sizes[:2] for d in (4e5, 2e6, 1e7)]
        table.writerows([f"run {i}", n, d, LAW.loss(n, d)] for i, (n, d) in enumerate([*pairs, (sizes[2], 1e7)]))
    found = in_process.json("scale", "--points", path, "--quiet")
    assert found["held_out"] is None and found["fit"]["runs"] == 7
    assert not any(row["held_out"] for row in found["rows"])
    (note,) = [note for note in found["notes"] if "held-out test" in note]
    assert "run 6" in note and "2 different numbers of parameters" in note
    assert note in in_process("scale", "--points", path)[1]


def test_a_time_that_one_thread_makes_enough_is_said(tmp_path: Path, in_process, monkeypatch: pytest.MonkeyPatch):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{number:x} " for number in range(150_000)))

    def speed(*_):
        pace = 1e5 if torch.get_num_threads() == 1 else 2e3
        return lambda shape: pace

    monkeypatch.setattr("headway.science.scaling.study.measured_speed", speed)
    monkeypatch.setattr("headway.science.scaling.study.faster_steps", lambda *_: "float32")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        status, _, said = in_process("scale", text, "--time", "4m", "--plan")
        assert status == 2 and "too short" in said and "--threads 1" in said and torch.get_num_threads() == 2
        assert in_process("scale", text, "--time", "4m", "--plan", "--threads", "1")[0] == 0
        torch.set_num_threads(2)
        said = in_process("scale", text, "--time", "30s", "--plan")[2]
        assert "too short" in said and "--threads" not in said
    finally:
        torch.set_num_threads(threads)
