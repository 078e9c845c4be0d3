"""Intervals against the values that their papers print, and against what they promise."""

import numpy as np
import pytest
from scipy.stats import binomtest

from headway.tasks.registry import spec
from headway.training.evaluation import intervals
from headway.training.evaluation.comparison import SCORES, better_over_seeds, over_seeds


def pairs(a, b, c, d):
    """Right by both, by the first alone, by the second alone, by neither."""
    one = np.array([True] * (a + b) + [False] * (c + d))
    other = np.array([True] * a + [False] * b + [True] * c + [False] * d)
    return one, other


@pytest.mark.parametrize(
    ("right", "n", "expected"),
    [(81, 263, (0.2553, 0.3662)), (15, 148, (0.0624, 0.1605)), (0, 20, (0.0, 0.1611)), (1, 29, (0.0061, 0.1718))],
)
def test_intervals_as_newcombe_prints_them(right, n, expected):
    assert intervals.wilson(right, n) == pytest.approx(expected, abs=1e-4)  # Newcombe 1998, table I, method 3
    assert intervals.wilson(2, 2) == pytest.approx((0.342, 1.0), abs=1e-3)  # nearly no evidence
    with pytest.raises(ValueError, match="expected 1 or more"):
        intervals.wilson(0, 0)
    # 56/70 against 48/80, his table II (a), method 10
    assert intervals.of_shares(56 / 70, 70, 48 / 80, 80) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def compared(*counts):
    """The interval by which the first of two models is more often right."""
    low, high = better_over_seeds("class", *([np.stack([one, np.ones(len(one))], 1)] for one in pairs(*counts)))
    return low, high


@pytest.mark.parametrize("n", [7, 31, 211])
def test_paired_shares_never_claim_more_than_the_exact_test_of_mcnemar(n):
    draw = np.random.default_rng(n)
    decided = 0
    for _ in range(200):
        a, b, c, d = draw.multinomial(n, draw.dirichlet([2, 1, 1, 1]))
        low, high = compared(a, b, c, d)
        assert low <= (b - c) / n <= high
        if low > 0 or high < 0:
            decided += 1
            assert binomtest(int(b), int(b + c)).pvalue < 0.05
    assert n < 31 or decided > 20


def test_paired_shares_cover_newcombes_interval_and_equal_models_are_not_told_apart():
    """36, 12, 2, 0 of 50: his table for paired data gives 0.0569 to 0.3404 by method 10."""
    low, high = compared(36, 12, 2, 0)
    assert 0 < low <= 0.0570 and high >= 0.3403
    low, high = compared(2, 0, 0, 0)
    assert low < -0.3 and high > 0.3
    low, high = compared(900, 0, 0, 100)
    assert low < 0 < high


def test_a_mean_is_students_interval_with_three_more_units_as_far_off_as_the_farthest():
    values = np.array([1.0, 2.0, 4.0, 3.0, 2.5])
    low, high = over_seeds("loss", [np.stack([7 * values, np.full(5, 7.0)], 1)])
    apart = np.append(values - 2.5, [1.5, 1.5, 1.5])
    half = 2.7764 * (apart @ apart / 4 / 5) ** 0.5
    assert (low, high) == pytest.approx((2.5 - half, 2.5 + half), rel=1e-4)
    assert over_seeds("loss", [np.ones((1, 2))]) is None


@pytest.mark.parametrize(("sigma", "n"), [(0.5, 23), (1.0, 30)])
def test_a_mean_over_units_of_any_size_covers_what_it_says(sigma, n):
    """Also where a few units are far harder than the others."""
    draw, covered = np.random.default_rng(0), 0
    for _ in range(600):
        counts = draw.integers(3, 90, n).astype(float)
        units = np.stack([counts * draw.lognormal(-(sigma**2) / 2, sigma, n), counts], 1)
        low, high = over_seeds("loss", [units])
        covered += low <= 1.0 <= high
    assert 0.91 <= covered / 600 <= 0.99


def test_a_rank_correlation_with_a_tenth_of_unrelated_pairs_covers_what_it_says():
    draw, covered = np.random.default_rng(0), 0
    for _ in range(400):
        wanted = draw.standard_normal(100)
        found = np.where(draw.random(100) < 0.9, wanted, draw.standard_normal(100))
        low, high = over_seeds("correlation", [np.stack([found, wanted], 1)])
        covered += low <= 0.9 <= high
    assert 0.92 <= covered / 400 <= 0.99


def test_influences_are_what_leaving_a_unit_out_changes():
    draw = np.random.default_rng(1)
    a, b = draw.normal(size=53), np.round(draw.normal(size=53) * 2)
    b[:20] = np.round(a[:20] * 2)
    positive = b + a > 0
    truth, guess = draw.integers(0, 3, 53), draw.integers(0, 3, 53)
    kinds = {
        "correlation": np.stack([a, b], 1),
        "area": np.stack([b, positive], 1),
        "macro": np.stack([guess, truth], 1).astype(float),
        "quotient": np.stack([2 * (guess == truth), 1 + truth], 1).astype(float),
        "class": np.stack([guess, truth], 1),
    }
    for kind, units in kinds.items():
        score = SCORES[kind][0]
        value, influence = score(units)
        left_out = np.array([score(np.delete(units, at, axis=0))[0] for at in range(len(units))])
        jackknife = 52 / 53 * ((left_out - left_out.mean()) ** 2).sum()
        assert 53 / 52 * (influence**2).sum() == pytest.approx(jackknife, rel=0.12), kind
        assert abs(influence.sum()) < 1e-9 and abs(value) <= 1, kind


def test_areas_are_those_of_scikit_learn_with_ties():
    from sklearn.metrics import roc_auc_score

    draw = np.random.default_rng(4)
    positive = draw.random(61) < 0.3
    scores = np.round(draw.normal(size=61) + positive, 1)
    assert intervals.area(scores, positive)[0] == pytest.approx(roc_auc_score(positive, scores))
    with pytest.raises(ValueError, match="rows of both kinds"):
        intervals.area(scores, np.ones(61, dtype=bool))


@pytest.mark.parametrize("kind", ["quotient", "class", "correlation", "area", "macro"])
def test_of_a_perfect_result_as_much_is_unknown_as_of_a_perfect_share(kind):
    at = np.arange(30.0)
    perfect = {"quotient": np.full((30, 2), 4.0), "correlation": np.stack([at, at], 1)}
    units = perfect.get(kind, np.stack([at % 2, at % 2], 1))
    low, high = over_seeds(kind, [units])
    share = intervals.wilson(30, 30, intervals.student(30))[0]
    assert high == 1.0 and low == pytest.approx(2 * share - 1 if kind == "correlation" else share)


def test_seeds_make_an_interval_wider_and_rows_are_never_forgotten():
    """Three seeds that are right alike: of 61 rows, Wilson's interval, not one of no width."""
    rows = np.array([[1.0, 1.0]] * 51 + [[0.0, 1.0]] * 10)
    # two show how much seeds differ so badly that an interval is too wide or too narrow
    assert over_seeds("class", [rows] * 2) is None and better_over_seeds("class", [rows] * 2, [rows] * 3) is None
    low, high = over_seeds("class", [rows] * 3)
    assert (low, high) == pytest.approx(intervals.wilson(51, 61), abs=0.01)
    worse = rows.copy()
    worse[:20, 0] = 0.0
    below, above = over_seeds("class", [rows, rows, worse])
    assert below < low - 0.1 and above > high - 0.1
    losses = [np.stack([7 * (2 + shift + 0.01 * np.arange(9.0)), np.full(9, 7.0)], 1) for shift in (0.0, 0.1, 0.05)]
    assert over_seeds("loss", losses)[0] < 2.09 < over_seeds("loss", losses)[1]
    found = better_over_seeds("loss", losses, [one + np.array([7.0, 0.0]) for one in losses])
    assert 0 < found[0] < 1.0 < found[1]
    low, high = better_over_seeds("class", [rows] * 3, [rows])
    assert low < 0 < high


def test_quotients_of_sums_are_compared_on_the_same_units():
    """F1 of entities: 2 × found rightly over found + wanted, of every sentence."""
    f1 = spec("token_classification").metric("entity_f1")
    draw = np.random.default_rng(3)
    wanted = draw.integers(1, 4, 101)
    units = np.stack([2 * draw.binomial(wanted, 0.9), 2 * wanted], axis=1).astype(float)
    worse = np.stack([2 * draw.binomial(wanted, 0.5), 2 * wanted], axis=1).astype(float)
    assert better_over_seeds(f1.units, [units], [worse])[0] > 0 > better_over_seeds(f1.units, [worse], [units])[1]
    low, high = better_over_seeds(f1.units, [units], [units])
    assert low < 0 < high, "models that answer alike are not surely equal"
    none = [np.zeros((31, 2))]
    assert better_over_seeds(f1.units, none, none) is None, "sentences without an entity say nothing"
