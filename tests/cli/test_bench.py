"""``headway bench``: curves and speed, as a table or one JSON object, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.cli.bench import fit_in_words, sizes
from headway.errors import InputError
from headway.workflows import bench, timing


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "LEAST", 0.0)
    monkeypatch.setattr(bench, "BATCHES", (1, 2))


def test_sizes():
    assert sizes("128..1024", "lengths") == [128, 256, 512, 1024] and sizes("48..100", "widths") == [48, 96]
    assert sizes("300, 128,128", "lengths") == [128, 300] and sizes("7", "lengths") == [7]
    for wrong in ("", "0..8", "9..8", "128-512", "1,x", "1,,2", "0", "-3", "1.5", "99999999"):
        with pytest.raises(InputError, match="two numbers such as"):
            sizes(wrong, "lengths")


def test_curves_of_a_small_model(in_process: Callable, tmp_path: Path):
    words = ["--lengths", "8..32", "--widths", "32,64", "--kinds", "full,windowed", "--out", tmp_path / "curves"]
    found = in_process.json("bench", *words, "--quiet")
    assert {"task", "seconds", "rows", "fits", "left_out", "out"} <= set(found)
    assert len(found["rows"]) == 2 * (3 + 2)
    keys = {"kind", "length", "width", "seconds", "spread", "bytes", "tokens_per_second"}
    assert all(keys <= set(row) for row in found["rows"])
    assert {(fit["axis"], fit["kind"]) for fit in found["fits"]} == {
        (axis, kind) for axis in ("length", "width") for kind in ("full", "windowed")
    }
    assert {path.name for path in (tmp_path / "curves").iterdir()} == {
        *("cost.json", "cost-length.png", "cost-length.svg", "cost-width.png", "cost-width.svg")
    }
    assert json.loads((tmp_path / "curves" / "cost.json").read_text())["rows"] == found["rows"]
    assert ">length T (tokens)<" in (tmp_path / "curves" / "cost-length.svg").read_text()


def test_curves_of_a_runs_sizes_as_a_table(classifier_run: Path, in_process: Callable, tmp_path: Path):
    status, out, err = in_process("bench", classifier_run, "--lengths", "8,64", "--out", tmp_path, "--time", "1m")
    lines = out.splitlines()
    assert status == 0 and lines[0].split()[:4] == ["kind", "length", "width", "seconds"]
    assert [line.split()[:3] for line in lines[1:7]] == [
        [kind, length, "16"] for kind in ("full", "windowed", "lstm") for length in ("8", "64")
    ]
    assert "full: 8 tokens, width 16" in err and lines[-1].endswith(str(tmp_path))
    assert json.loads((tmp_path / "cost.json").read_text())["model"]["n_layers"] == 2


def test_speed_of_a_run(lm_run: Path, in_process: Callable):
    found = in_process.json("bench", lm_run, "--quiet")
    assert found["task"] == "language_modeling"
    assert {row["kind"] for row in found["rows"]} == {"read", "write"}
    status, out, _ = in_process("bench", lm_run, "--quiet", "--time", "12s")
    lines = out.splitlines()
    assert status == 0 and lines.index("") == 1 and lines.index("", 2) == 3 + len(found["rows"])


def test_an_exponent_in_words():
    power = {"exponent": 1.5, "interval": [1.4, 1.6], "sizes": [512, 1024, 2048], "last": 1.8}
    flat = {**power, "exponent": 1.0}
    fit = {"axis": "length", "kind": "full", "floor_seconds": 0.004, "seconds": power, "bytes": flat, "flops": None}
    words = "full: time grows as T^1.50 [1.40, 1.60] (1.80 between the last two), memory as T^1.00 over 512..2,048"
    assert fit_in_words(fit) == f"{words}, the sizes that take more than 0.004 s."
    nothing = {**fit, "axis": "width", "seconds": None, "bytes": None}
    assert "no exponent in D: fewer than two sizes take more than 0.004 s" in fit_in_words(nothing)


@pytest.mark.parametrize(("words", "said"), [
    ([], "name a RUN"),
    (["--lengths", "8..4"], "--lengths is '8..4'; it must be two numbers"),
    (["--lengths", "8", "--kinds", "full,other"], "'other' is unknown; the kinds are full, windowed, rnn, lstm, gru"),
    (["--widths", "33"], "33 is not a multiple of 32"),
    (["--lengths", "100000..200000", "--widths", "33"], "33 is not a multiple of 32"),
    (["--lengths", "8", "--time", "soon"], "--time is 'soon'"),
    (["nowhere", "--out", "x"], "--out is for the plots"),
    (["nowhere"], "no such model directory"),
    (["--lengths", "8", "--out", "taken"], "cannot be written"),
])  # fmt: skip
def test_wrong_input_is_one_message(in_process: Callable, tmp_path: Path, words: list[str], said: str, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    in_process.refused("bench", *words, "--quiet", said=said)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_memory_of_the_first_size_is_its_own(headway_command: Callable):
    """What a process allocates once, such as to time its products, belongs to no size."""
    script = """
from headway.workflows.bench import SMALL, cost_curves
curves = cost_curves(SMALL.but(n_layers=1), lengths=[32, 64, 128], kinds=["full"])
print(*(row["bytes"] for row in curves["rows"]))
"""
    done = headway_command("--version", script=script)
    first, second, third = map(int, done.stdout.splitlines()[0].split())
    assert abs(third / first - 4) < 0.1 and abs(second / first - 2) < 0.1, done.stderr
