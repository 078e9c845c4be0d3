"""Ticks, thinning and labels, against values worked out by hand."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.reports.charts import ceiling, interpolate, spread, thin, tick_labels, ticks
from headway.reports.record import read_record, series
from headway.reports.wording import count, decimal, number, short_name


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 878, 10, [0, 100, 200, 300, 400, 500, 600, 700, 800]),
        (0, 878, 5, [0, 200, 400, 600, 800]),
        (1.1, 4.3, 7, [1.5, 2, 2.5, 3, 3.5, 4]),
        (0.38, 0.87, 7, [0.4, 0.5, 0.6, 0.7, 0.8]),
        (3, 3, 5, [3]),
    ],
)
def test_ticks(low: float, high: float, most: int, expected: list[float]) -> None:
    assert ticks(low, high, most) == pytest.approx(expected)


@settings(max_examples=200, deadline=None)
@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-3, 1e9), most=st.integers(2, 12))
def test_ticks_are_few_and_inside(low: float, span: float, most: int) -> None:
    found = ticks(low, low + span, most)
    assert 1 <= len(found) <= most
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in found)


def test_tick_labels() -> None:
    assert tick_labels([1.5, 2.0, 2.5]) == ["1.5", "2.0", "2.5"]
    assert tick_labels([0, 0.0005, 0.001]) == ["0", "0.0005", "0.0010"]
    assert tick_labels([0, 1000, 2000]) == ["0", "1,000", "2,000"]
    assert tick_labels([0, 50000, 100000]) == ["0", "50k", "100k"]
    assert tick_labels([0, 0.00001, 0.00002]) == ["0", "1e-05", "2e-05"]


def test_thin_takes_means_and_keeps_the_overall_mean() -> None:
    points = [(float(n), float(n * n)) for n in range(6)]
    assert thin(points, 3) == [(0.5, 0.5), (2.5, 6.5), (4.5, 20.5)]
    assert thin(points, 6) == points
    found = thin([(float(n), 1.7) for n in range(99991)])
    assert len(found) == 400 and all(y == pytest.approx(1.7) for _, y in found)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 300), st.sampled_from([18.0, 32.0])), min_size=1, max_size=8))
def test_labels_do_not_overlap(labels: list[tuple[float, float]]) -> None:
    wanted, heights = [at for at, _ in labels], [height for _, height in labels]
    centres = spread(wanted, heights, 0, 300)
    order = sorted(range(len(labels)), key=lambda index: centres[index])
    for upper, lower in itertools.pairwise(order):
        assert centres[lower] - centres[upper] >= (heights[upper] + heights[lower]) / 2 - 1e-6
    assert spread([50.0, 200.0], [18.0, 18.0], 0, 300) == [50.0, 200.0]


def test_interpolate() -> None:
    points = [(10.0, 2.0), (20.0, 6.0)]
    assert [interpolate(points, x) for x in (9, 10, 15, 20, 21)] == [None, 2.0, 4.0, 6.0, None]


def test_a_spike_does_not_flatten_the_curve() -> None:
    assert ceiling([*[1.0] * 97, 1000.0], []) == 1.5
    assert ceiling([*[1.0] * 97, 1000.0], [3.3]) == 3.3
    assert ceiling([4.0, 2.0, 1.0], [3.3]) == 4.0


def test_words_for_numbers() -> None:
    assert [decimal(value) for value in (1.4713, 0.8, 123.44, 12345.6, None, float("nan"), True)] == [
        "1.471", "0.800", "123.4", "12,346", "–", "–", "–",
    ]  # fmt: skip
    assert [count(value) for value in (878, 40960, 1_790_003, 3.2e9)] == ["878", "40,960", "1.79 M", "3.2 B"]
    assert short_name("linear model on word and character n-grams") == "linear model"
    assert number(10**400) is None


def test_the_later_line_of_a_step_wins_and_half_lines_do_not_count(tmp_path: Path) -> None:
    lines = [(10, 3.0), (20, 2.0), (30, 1.0), (20, 2.5)]
    text = "".join(json.dumps({"event": "step", "step": step, "loss": loss}) + "\n" for step, loss in lines)
    (tmp_path / "log.jsonl").write_bytes(text.encode() + b'\n[1]\n{"event": []}\n\xff\xfe\n{"event": "step", "st')
    record = read_record(tmp_path)
    assert series(record.steps, "loss") == [(10, 3.0), (20, 2.5), (30, 1.0)]
    assert record.last_step == 30 and not record.finished
