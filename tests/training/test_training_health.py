"""The verdict of each evaluation, and what is found in the data: every rule by hand."""

import json
import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headway.tasks.data_profile import SPAN, fitting_pairs, repeated
from headway.training import health as h
from headway.training.health import KEPT, START, DataProfile, Health, RunStatistics, judge
from headway.training.loop.state import State

TEXT = DataProfile(learning_rate=3e-3, uniform=4.0, chance=3.0, simple=2.5, examples=1000)
ROWS = DataProfile(learning_rate=1e-3, chance=0.69, majority=0.52, majority_f1=0.34, linear=0.8, examples=100)


def signs(start: float, *evaluations: tuple[float, float], passes: float = 9.0, **more: float) -> RunStatistics:
    """A run that begins at a loss: (training, validation loss) at evenly spread evaluations, ten steps before each."""
    found, recent = RunStatistics(), [start] * 8
    for at in range(8):
        found.step(start, 1.0, recent[: at + 1])
    for number, (train, loss) in enumerate(evaluations, 1):
        for _ in range(10):
            recent = [*recent, train]
            found.step(train, more.get("norm", 1.0), recent)
        metrics = {"val_loss": loss, **{name: more[name] for name in ("accuracy", "macro_f1") if name in more}}
        share = number / len(evaluations)
        found.evaluated(metrics, step=10 * number, share=share, passes=passes * share, recent=recent)
    return found


def cause(found: RunStatistics, known: DataProfile) -> tuple[str, str]:
    health = judge(found, known)
    return health.word, health.cause


def test_a_run_that_learns_is_said_to_learn():
    assert judge(signs(4.0, (3.2, 2.9), (2.5, 2.4), (2.0, 2.1)), TEXT) == Health(h.LEARNING)
    assert str(Health()) == "learning"


@pytest.mark.parametrize(
    "evaluations",
    [[(5.5, 5.5)], [(3.0, math.nan)], [(3.0, math.inf)], [(3.0, 2.9), (7.0, 3.1)]],
    ids=["above its start", "nan", "infinity", "later"],
)
def test_a_loss_that_rises_or_is_no_number_diverges(evaluations: list[tuple[float, float]]):
    assert cause(signs(4.0, *evaluations), TEXT) == (h.DIVERGING, h.HIGH_RATE)


def test_a_loss_that_rose_above_its_start_and_has_not_come_far_since():
    """As when the learning rate is far too high at first, and the schedule then lowers it."""
    rose = signs(4.0, (5.5, 4.5), (3.4, 2.9), (2.6, 2.6), (2.2, 2.3))
    found = [judge(replace(rose, evaluations=rose.evaluations[:n], best=rose.evaluations[n - 1]), TEXT) for n in (2, 3)]
    assert [one.cause for one in found] == [h.HIGH_RATE, h.HIGH_RATE], "bigrams are better"
    assert judge(rose, TEXT).word == h.LEARNING


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ({"leaked": 0.9}, h.LEAKED),
        ({"alike": 0.9}, h.ALIKE),
        ({"unknown": 0.9}, h.UNKNOWN),
        ({"one_target": 0.9}, h.ONE_TARGET),
        ({"pretrained": True, "uniform": 3.0}, h.STRANGE_BASE),
    ],
)
def test_what_is_known_of_the_data_is_a_fault_even_while_the_loss_falls(fact: dict[str, Any], expected: str):
    known = replace(TEXT, **fact)
    assert cause(signs(4.0, (3.2, 2.9), (2.5, 2.4)), known) == (h.FAULT, expected)


def test_targets_that_neither_the_model_nor_a_simple_one_can_tell():
    flat = [(3.0, 3.0), (2.9, 3.01), (2.8, 3.05), (2.6, 3.1)]
    nothing = replace(TEXT, simple=3.02)
    assert cause(signs(4.0, *flat), nothing) == (h.FAULT, h.UNRELATED)
    assert cause(signs(4.0, *flat), TEXT) == (h.STUCK, h.WEAK)
    unsure = signs(0.69, *[(0.69, 0.7)] * 4, accuracy=0.5)
    assert cause(unsure, replace(ROWS, linear=0.55)) == (h.FAULT, h.UNRELATED)
    assert cause(unsure, replace(ROWS, linear=0.55, examples=20)) == (h.STUCK, h.WEAK)


def test_pairs_that_do_not_belong_together():
    known = replace(TEXT, paired=0.51)
    run = signs(4.0, (3.2, 2.9), (2.6, 2.5), (2.3, 2.4))
    assert cause(run, known) == (h.FAULT, h.UNRELATED)
    assert cause(run, replace(TEXT, paired=0.8)) == (h.LEARNING, "")
    better = signs(4.0, (3.2, 2.9), (2.0, 1.9), (1.0, 1.2))
    assert cause(better, known) == (h.LEARNING, ""), "it tells them apart, whatever words stand together"


def test_held_out_data_of_another_kind_are_known_in_the_first_pass():
    apart = [(3.0, 4.9), (2.4, 4.8), (2.1, 4.8)]
    assert cause(signs(4.5, *apart, passes=1.0), TEXT) == (h.FAULT, h.UNLIKE)
    assert cause(signs(4.5, *apart, passes=50.0), TEXT) != (h.FAULT, h.UNLIKE), "by then it may have learnt by heart"
    exchanged = replace(ROWS, linear=0.1)
    assert cause(signs(0.69, (0.3, 2.0), (0.1, 3.0), accuracy=0.1), exchanged) == (h.FAULT, h.UNLIKE)


def test_learning_by_heart():
    falls_and_rises = [(3.0, 2.8), (2.2, 2.4), (1.7, 2.5), (1.2, 2.7), (0.8, 3.0)]
    assert cause(signs(4.0, *falls_and_rises), TEXT) == (h.OVERFITTING, h.BY_HEART)
    assert cause(signs(4.0, *falls_and_rises), replace(TEXT, examples=15)) == (h.LEARNING, ""), "too few"
    assert cause(signs(4.0, *falls_and_rises[:3]), TEXT) == (h.LEARNING, ""), "not at the first rise"
    unsure = [(3.0, 2.8), (2.9, 0.3), (2.2, 0.4), (1.2, 0.5), (0.8, 0.6)]
    assert cause(signs(4.0, *unsure), TEXT) == (h.LEARNING, ""), "no better in training than it was on held-out data"


def test_a_run_that_does_not_move():
    still = [(4.0, 4.0)] * 4
    slow = replace(TEXT, learning_rate=1e-6)
    assert cause(signs(4.0, *still), slow) == (h.STUCK, h.LOW_RATE)
    short = signs(4.0, *still)
    short = replace(short, evaluations=[{**one, "step": number} for number, one in enumerate(short.evaluations)])
    assert cause(short, slow)[1] != h.LOW_RATE, "three steps tell nothing of the rate"
    assert cause(signs(4.0, *still, norm=0.0), TEXT) == (h.STUCK, h.NO_GRADIENT)
    assert cause(signs(4.0, *still), TEXT) == (h.STUCK, h.WEAK)
    assert cause(signs(4.0, *still[:1]), TEXT) == (h.LEARNING, ""), "one evaluation tells nothing of it"


def test_nothing_is_judged_before_the_first_evaluation():
    with pytest.raises(ValueError, match="after an evaluation"):
        judge(RunStatistics(), DataProfile())


def test_every_cause_has_its_advice():
    assert {word for word, *_ in h.RULES} == {h.STUCK, h.OVERFITTING, h.DIVERGING, h.FAULT}
    assert all(advice.endswith(".") for *_, advice in h.RULES)


def test_signs_are_plain_bounded_and_come_back_as_they_were():
    state = State(signs=signs(4.0, *[(3.0 - n / 200, 3.0 - n / 100) for n in range(97)]))
    state.signs.evaluated({"val_loss": math.inf}, step=1000, share=1.0, passes=9.0, recent=[])
    assert len(state.signs.evaluations) == KEPT + 1 and len(state.signs.first) == START
    assert state.signs.evaluations[0]["step"] == 10 and state.signs.best["step"] == 970 and state.signs.worse == 1
    assert State.of(json.loads(json.dumps(state.plain(), allow_nan=False))).signs == state.signs


def test_spans_of_held_out_text_that_occur_in_training():
    random_ = np.random.default_rng(3)
    train, other = random_.integers(0, 50, 7001), random_.integers(0, 50, 5 * SPAN + 3)
    assert repeated(train, other) == 0.0 and repeated(train, other[: SPAN - 1]) == 0.0
    assert repeated(train, train[137 : 137 + 4 * SPAN]) == 1.0, "wherever they stand"
    assert repeated(train, np.concatenate([train[-3 * SPAN :], other[:SPAN]])) == 0.75
    assert repeated(train[: SPAN - 1], other) == 0.0


def test_pairs_fit_each_other_better_than_others_or_not():
    choose = random.Random(5)
    rows = [choose.choices(range(40), k=choose.randint(3, 9)) for _ in range(600)]
    targets = [[token + 40 for token in row] for row in rows]
    mixed = choose.sample(targets, len(targets))
    assert fitting_pairs(rows[:500], targets[:500], rows[500:], targets[500:]) > 0.95
    assert abs(fitting_pairs(rows[:500], mixed[:500], rows[500:], mixed[500:]) - 0.5) < 0.15
    assert fitting_pairs([[1], [1]], [[2], [2]], [[1]], [[2]]) is None
