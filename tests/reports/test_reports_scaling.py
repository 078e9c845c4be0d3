"""The pictures of a scaling study, from what the verb prints."""

from functools import partial
from pathlib import Path

from headway.reports.plots import Lines, draw_study
from headway.science.scaling.law import Law, best_sizes

LAW = Law(E=1.3, A=30.0, B=90.0, alpha=0.35, beta=0.38)
LINES = Lines(LAW.loss, partial(best_sizes, LAW))


def row(n: float, d: float, held_out: bool = False) -> dict:
    return {"N": n, "tokens": d, "compute": 6 * n * d, "loss": LAW.loss(n, d), "held_out": held_out}


def test_abilities_are_drawn_where_they_were_measured(tmp_path: Path):
    pairs = [(n, d) for n in (7e4, 1.3e5, 3.1e5) for d in (5e5, 1.1e6)]
    probes = [
        {"parameters": n, "tokens": d, "induction": {"first": 4.1, "second": 3.0}, "fewshot": {"0": 0.25, "2": 0.7}}
        for n, d in pairs
    ]
    found = {"fit": LAW.plain(), "held_out": None, "rows": [row(n, d) for n, d in pairs], "probes": probes}
    drawn = draw_study(found, LINES, tmp_path)
    assert [path.name for path in drawn] == ["loss", "compute", "optimal", "abilities"]
    said = {path.name: (tmp_path / f"{path.name}.svg").read_text() for path in drawn}
    assert "each pair shown 2 times" in said["abilities"] and "310 k" in said["abilities"]
    assert "1.1 M" in said["loss"] and "predicted" not in said["loss"]
    assert "Hoffmann et al. 2022" in said["optimal"]
    assert draw_study({**found, "probes": None}, LINES, tmp_path / "less")[-1].name == "optimal"
