"""Plots are written whole, as two files, the same each time."""

import sys
from pathlib import Path

import pytest

from headway.errors import InputError
from headway.reports.plots import COLOURS, MARKERS, line, plotted


def test_a_plot_is_two_files_that_do_not_change(tmp_path: Path):
    for name in ("one", "other"):
        with plotted(tmp_path / name / "loss.curve", columns=2) as (left, right):
            left.plot([1, 2, 3], [3.0, 2.0, 1.5], **line(0), label="first")
            left.set_xlabel("steps")
            right.plot([1, 2], [5, 7], **line(9))
    files = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("one", "other")]
    assert files[0] == files[1] == ["loss.curve.png", "loss.curve.svg"]
    first, second = ((tmp_path / name / "loss.curve.svg").read_text() for name in ("one", "other"))
    assert first == second and ">steps<" in first
    assert (tmp_path / "one" / "loss.curve.png").read_bytes()[:4] == b"\x89PNG"


def test_lines_are_told_apart():
    assert len({(line(n)["color"], line(n)["marker"]) for n in range(8)}) == len(COLOURS) == len(MARKERS) == 8


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"headway\[plots\]"), plotted(tmp_path / "loss"):
        raise AssertionError("nothing can be drawn")
    assert not list(tmp_path.iterdir())
