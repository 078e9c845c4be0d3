"""Intervals against the values that their papers print, and against what they promise."""

import numpy as np
import pytest
from scipy.stats import binomtest

from headway.tasks.registry import spec
from headway.training.evaluation import intervals
from headway.training.evaluation.comparison import gain


def pairs(a: int, b: int, c: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Right by both, by the first alone, by the second alone, by neither."""
    one = np.array([True] * (a + b) + [False] * (c + d))
    other = np.array([True] * a + [False] * b + [True] * c + [False] * d)
    return one, other


@pytest.mark.parametrize(
    ("right", "n", "expected"),
    [(81, 263, (0.2553, 0.3662)), (15, 148, (0.0624, 0.1605)), (0, 20, (0.0, 0.1611)), (1, 29, (0.0061, 0.1718))],
)
def test_wilson_as_newcombe_prints_it(right: int, n: int, expected: tuple[float, float]):
    assert intervals.wilson(right, n) == pytest.approx(expected, abs=1e-4)  # Newcombe 1998, table I, method 3
    with pytest.raises(ValueError, match="expected 1 or more"):
        intervals.wilson(0, 0)


def test_two_rows_are_nearly_no_evidence():
    low, high = intervals.wilson(2, 2)
    assert low == pytest.approx(0.342, abs=1e-3) and high == 1.0


def test_independent_shares_as_newcombe_prints_them():
    """56/70 against 48/80, his table II (a), method 10."""
    assert intervals.of_shares(56 / 70, 70, 48 / 80, 80) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_paired_shares_cover_newcombes_score_interval():
    """36, 12, 2, 0 of 50: his table for paired data gives 0.0569 to 0.3404 by method 10."""
    low, high = intervals.of_paired_shares(*pairs(36, 12, 2, 0))
    assert low <= 0.0570 and high >= 0.3403 and low > 0


@pytest.mark.parametrize("n", [7, 31, 211])
def test_paired_shares_never_claim_more_than_the_exact_test_of_mcnemar(n: int):
    draw = np.random.default_rng(n)
    decided = 0
    for _ in range(200):
        a, b, c, d = draw.multinomial(n, draw.dirichlet([2, 1, 1, 1]))
        low, high = intervals.of_paired_shares(*pairs(a, b, c, d))
        assert low <= (b - c) / n <= high
        if low > 0 or high < 0:
            decided += 1
            assert binomtest(int(b), int(b + c)).pvalue < 0.05
    assert n < 31 or decided > 20


def test_models_that_answer_alike_are_not_told_apart():
    low, high = intervals.of_paired_shares(*pairs(2, 0, 0, 0))
    assert low < -0.3 and high > 0.3
    low, high = intervals.of_paired_shares(*pairs(900, 0, 0, 100))
    assert low < 0 < high


def test_a_mean_over_units_is_the_t_interval_where_they_are_of_one_size():
    from scipy.stats import t

    values = np.array([1.0, 2.0, 4.0, 3.0, 2.5])
    low, high = intervals.of_mean(7 * values, np.full(5, 7.0))
    half = t.ppf(0.975, 4) * values.std(ddof=1) / 5**0.5
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half))
    with pytest.raises(ValueError, match="expected 2 or more"):
        intervals.of_mean(values[:1], values[:1])


def test_a_mean_over_units_of_any_size_covers_what_it_says():
    draw, covered = np.random.default_rng(0), 0
    for _ in range(400):
        counts = draw.integers(3, 90, 23).astype(float)
        low, high = intervals.of_mean(counts * draw.normal(2.0, 0.5, 23), counts)
        covered += low <= 2.0 <= high
    assert 0.91 <= covered / 400 <= 0.98


def test_the_bootstrap_is_the_same_each_time_and_about_the_t_interval():
    values = np.random.default_rng(1).normal(3.0, 1.0, 199)
    found = intervals.resampled(lambda at: float(values[at].mean()), len(values))
    assert found == intervals.resampled(lambda at: float(values[at].mean()), len(values))
    assert found == pytest.approx(intervals.of_mean(values, np.ones(199)), abs=0.03)


def test_folds_of_one_table_are_wider_than_independent_ones():
    values = [0.6, 0.7, 0.8, 0.9, 0.5] * 10
    low, high = intervals.of_folds(values, 5)
    naive = 2.0096 * np.std(values, ddof=1) / 50**0.5
    assert (high - low) / 2 == pytest.approx(naive * (1 + 50 / 4) ** 0.5, rel=1e-3)


def test_quotients_of_sums_are_compared_on_the_same_units():
    """F1 of entities: 2 × found rightly over found + wanted, of every sentence."""
    f1 = spec("token_classification").metric("entity_f1")
    draw = np.random.default_rng(3)
    wanted = draw.integers(1, 4, 101)
    units = np.stack([2 * draw.binomial(wanted, 0.9), 2 * wanted], axis=1).astype(float)
    worse = np.stack([2 * draw.binomial(wanted, 0.5), 2 * wanted], axis=1).astype(float)
    assert gain(worse, units, f1)[0] > 0 > gain(units, worse, f1)[1]
    assert gain(np.zeros((31, 2)), np.zeros((31, 2)), f1) == [0.0, 0.0]
