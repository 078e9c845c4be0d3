"""Plots of a search, of whatever its trials came to."""

from pathlib import Path
from typing import Any

import pytest

from headway.reports.plots import best_so_far, plot_tuning


def trial(number: int, value: float | None, state: str = "complete", **options: Any) -> dict[str, Any]:
    return {"number": number, "value": value, "state": state, "options": options, "preset": number == 0, "metrics": {}}


@pytest.fixture
def found() -> dict[str, Any]:
    rates, words = (1e-3, 5e-4, 2e-3, 3e-3, 1e-4), ("word", "bpe", "word", "bpe", "word")
    values = (0.7, 0.9, 0.6, None, 0.8)
    states = ("complete", "complete", "complete", "failed", "pruned")
    return {
        "measure": "val_loss",
        "trials": [
            trial(n, values[n], states[n], learning_rate=rates[n], tokenizer=words[n], dropout=n / 11) for n in range(5)
        ],
        "best": {"trial": 2, "value": 0.6},
        "importance": {"dropout": 0.5, "learning_rate": 0.3, "tokenizer": 0.2},
        "space": {
            "learning_rate": {"preset": 1e-3, "low": 1e-4, "high": 1e-2, "log": True, "whole": False},
            "tokenizer": {"preset": "word", "values": ["word", "bpe"]},
            "dropout": {"preset": 0.0, "low": 0.0, "high": 0.5, "log": False, "whole": False},
        },
    }


def test_the_best_so_far_counts_what_is_complete(found: dict[str, Any]):
    assert best_so_far(found["trials"]) == [(0, 0.7), (2, 0.6)]


def test_three_plots(found: dict[str, Any], tmp_path: Path):
    names = [path.name for path in plot_tuning(found, tmp_path)]
    plots = ("history", "importance", "values")
    assert names == [f"tuning-{plot}.{ending}" for plot in plots for ending in ("png", "svg")]
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    history, importance, values = ((tmp_path / f"tuning-{plot}.svg").read_text() for plot in plots)
    assert all(f">{words}<" in history for words in ("complete", "pruned", "failed", "best so far"))
    assert ">validation loss (nats)<" in history and ">dropout<" in importance
    assert values.index(">dropout<") < values.index(">learning_rate<") < values.index(">tokenizer<")
    assert ">bpe<" in values and ">preset<" in values


def test_without_importance_the_rest_is_drawn(found: dict[str, Any], tmp_path: Path):
    found["importance"], found["measure"] = None, "error"
    assert len(plot_tuning(found, tmp_path)) == 4
    assert ">learning_rate<" in (tmp_path / "tuning-values.svg").read_text()
    assert ">validation error (fraction)<" in (tmp_path / "tuning-history.svg").read_text()
