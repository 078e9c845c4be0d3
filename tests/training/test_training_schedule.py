"""Schedules at their corners, growing batches, and the budget by a clock of the test's own."""

from types import SimpleNamespace

import pytest

from headway.training.loop import schedule
from headway.training.loop.schedule import FLOOR, SCHEDULES, StepBudget, TimeBudget, accumulation, factor

SHARES = [n / 997 for n in range(998)]


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("warmup", [0.0, 0.02, 0.3])
def test_the_rate_rises_in_warm_up_never_after_and_stays_between_zero_and_one(kind: str, warmup: float):
    values = [factor(share, kind, warmup) for share in SHARES]
    assert all(0 < value <= 1 for value in values)
    rising = [value for share, value in zip(SHARES, values, strict=True) if share < warmup]
    falling = [value for share, value in zip(SHARES, values, strict=True) if share >= warmup]
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)
    assert factor(warmup, kind, warmup) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [kind for kind in SCHEDULES if kind != "inverse_sqrt"])
def test_schedules_that_end_end_at_the_floor(kind: str):
    assert factor(1.0, kind, 0.02) == pytest.approx(FLOOR)


def test_corner_values():
    assert factor(0.01, "cosine", 0.02) == pytest.approx(0.5)
    assert factor(0.51, "cosine", 0.02) == pytest.approx((1 + FLOOR) / 2)
    assert factor(0.51, "linear", 0.02) == pytest.approx((1 + FLOOR) / 2)
    assert factor(0.08, "inverse_sqrt", 0.02) == pytest.approx(0.5)
    assert factor(0.4, "constant_then_decay", 0.02) == pytest.approx(1.0)
    assert factor(0.7, "constant_then_decay", 0.02) == pytest.approx((1 + FLOOR) / 2)


def test_an_unknown_schedule_is_refused():
    with pytest.raises(ValueError, match=r"cosin.*cosine, linear"):
        factor(0.5, "cosin", 0.0)


@pytest.mark.parametrize(("base", "growth"), [(1, 1), (2, 1), (1, 4), (3, 5)])
def test_batches_grow_in_equal_stages_from_base_to_base_times_growth(base: int, growth: int):
    sizes = [accumulation(share, base, growth) for share in SHARES]
    assert sizes[0] == base and sizes[-1] == base * growth
    assert sizes == sorted(sizes)
    assert sorted(set(sizes)) == [base * n for n in range(1, growth + 1)]


def test_steps_are_counted_and_never_exceed_the_whole():
    steps = StepBudget(7)
    assert [steps.share(n) for n in (0, 7, 8)] == [0.0, 1.0, 1.0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(schedule, "time", clock)
    return clock


def test_the_share_of_time_goes_from_zero_to_one_and_keeps_what_the_end_needs(clock: SimpleNamespace):
    run = TimeBudget(60.0, started=990.0)  # ten seconds were spent reading
    run.keep(evaluation=2.0, ending=4.0)
    run.keep(evaluation=1.0)  # it was measured again
    shares = []
    for clock.now in (1000.0, 1022.5, 1045.0, 1060.0):
        shares.append(run.share(3))
    assert shares == [0.0, 0.5, 1.0, 1.0]


def test_time_already_spent_counts(clock: SimpleNamespace):
    run = TimeBudget(60.0, started=1000.0, spent=40.0)
    assert run.share(0) == pytest.approx(40 / 60)
    clock.now = 1020.0
    assert run.share(0) == 1.0


def test_without_time_for_training_the_run_is_over_at_once(clock: SimpleNamespace):
    run = TimeBudget(3.0, started=1000.0, kept={"ending": 4.0})
    assert run.share(0) == 1.0
