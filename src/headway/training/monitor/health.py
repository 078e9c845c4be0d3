"""How a run is doing: a verdict at each evaluation, with the likeliest cause and what to do about it.

Nothing here reads data or touches a model: `judge` looks at what the run has shown so far (`RunStatistics`) and at what
was known of it before the first step (`DataProfile`).  The rules stand in the order in which they are asked: what
breaks a run first, then what is wrong with the data, then how far training has come.

Losses are nats per target; a share is the part of the run that is done, 0 to 1; passes are those over the data.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from headway.training.monitor.run_statistics import HUGE, DataProfile, RunStatistics

LEARNING, STUCK, OVERFITTING, DIVERGING, FAULT = "learning", "stuck", "overfitting", "diverging", "data fault"

HIGH_RATE = "the learning rate is too high"
UNKNOWN = "the tokenizer does not know the text"
STRANGE_BASE = "the model of --from guesses worse on this text than one that knows nothing"
ALIKE = "the inputs are nearly all the same"
LEAKED = "the held-out part occurs in training"
ONE_TARGET = "the targets are nearly all the same"
UNLIKE = "the held-out part is unlike the training data"
UNRELATED = "the targets do not depend on the inputs"
BY_HEART = "the training data are learnt by heart"
LOW_RATE = "the learning rate is too low"
NO_GRADIENT = "no gradient reaches the weights"
WEAK = "the model or the time is too small for what there is to learn"

LEAST_PATH = 5e-4
"""Rate times steps: with less, no weight can have moved as far as it must to learn anything."""
FEW = 30
"""Held-out examples: with fewer of them nothing is said about the data from how they are answered."""
FEW_STEPS = 20
"""Steps after which a loss that has not changed tells something."""


@dataclass(frozen=True)
class Health:
    """A verdict: the word, the likeliest cause (nothing while the run learns), and what to do."""

    word: str = LEARNING
    cause: str = ""
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.cause}. {self.advice}" if self.cause else self.word


def judge(signs: RunStatistics, known: DataProfile) -> Health:
    """The verdict after the latest evaluation.  Raises ValueError before the first one."""
    if not signs.evaluations:
        raise ValueError("a run is judged after an evaluation, and there was none")
    for word, cause, holds, advice in RULES:
        if holds(signs, known):
            return Health(word, cause, advice)
    return Health()


def _learnt(signs: RunStatistics, known: DataProfile, beside: float | None = None) -> bool:
    """Whether any evaluation was clearly better than guessing (and than a loss ``beside`` it), as far as is known."""
    if known.chance is None:
        return True
    level = known.chance if beside is None else min(known.chance, beside)
    found = (signs.best, signs.evaluations[-1])
    return any(one["loss"] < 0.97 * level or _right(one, known) > 2 for one in found)


def _right(one: dict[str, float], known: DataProfile) -> float:
    """By how many standard errors an evaluation's accuracy is above that of the most frequent label."""
    if known.majority is None or "accuracy" not in one:
        return 0.0
    return (one["accuracy"] - known.majority) / known.error


def _diverges(signs: RunStatistics, known: DataProfile) -> bool:
    """The loss is no number, or well above its start; or it has been, and the model has not come far since."""
    now, start = signs.evaluations[-1], signs.start()
    if now["loss"] >= HUGE or not signs.first:
        return now["loss"] >= HUGE
    noise = 3 * math.hypot(now["error"], statistics.pstdev(signs.first) / math.sqrt(len(signs.first)))
    if now["train"] > start + max(0.2 * start, 0.1 * (known.chance or start)) + noise:
        return True
    peak = 1.15 if known.uniform is not None else 1.5  # times the start: batches of few targets are noisy
    return signs.peak > peak * signs.start(2) and not _learnt(signs, known, beside=known.simple)


def _strange_base(signs: RunStatistics, known: DataProfile) -> bool:
    """A model that was trained begins worse than guessing evenly: it read other tokens, or another kind of text."""
    trained = known.pretrained and known.uniform is not None and bool(signs.first)
    return trained and signs.start(4) > 1.02 * (known.uniform or 0.0)


def _one_target(signs: RunStatistics, known: DataProfile) -> bool:
    """Nearly all targets are one, and the model gives no other."""
    now = signs.evaluations[-1]
    if known.majority_f1 is None:
        return known.one_target > 0.5
    return known.one_target > 0.9 and now["share"] >= 0.3 and now.get("macro_f1", 1.0) <= known.majority_f1 + 0.02


def _unlike(signs: RunStatistics, known: DataProfile) -> bool:
    """In the first pass every batch is new, so that its loss tells what the held-out loss should be.

    Or, by labels: the model and a linear one are both clearly worse than the most frequent label.
    """
    if known.examples < FEW or known.chance is None:
        return False
    if known.linear is not None and known.majority is not None:
        below = (known.majority - known.linear) / known.error
        if below > 3 and _right(signs.evaluations[-1], known) < -3:
            return True
    early = [one for one in signs.evaluations if one["passes"] <= 1.5 and one["train"] < HUGE]
    gaps = [one["loss"] - one["train"] > max(0.3 * one["train"], 0.3 * known.chance) for one in early]
    return bool(gaps) and gaps[-1]


def _unrelated(signs: RunStatistics, known: DataProfile) -> bool:
    """Neither the model nor a simple one finds in the inputs what the targets are."""
    now = signs.evaluations[-1]
    if known.examples < FEW or now["share"] < 0.3:
        return False
    if known.paired is not None:
        alone = known.simple if known.simple is not None else known.chance
        chance = known.paired < 0.5 + max(2 * known.error, 0.05)
        return chance and alone is not None and signs.best["loss"] > 0.85 * alone
    if known.chance is None or _learnt(signs, known):
        return False
    if known.linear is not None and known.majority is not None:
        return (known.linear - known.majority) / known.error <= 2
    return known.simple is not None and known.simple > 0.97 * known.chance


def _by_heart(signs: RunStatistics, known: DataProfile) -> bool:
    """The held-out loss has risen from its best for some time while that of training fell."""
    if known.examples < FEW:
        return False
    now, best = signs.evaluations[-1], signs.best
    rise = now["loss"] - best["loss"]
    fallen = now["train"] < 0.9 * best["train"] and now["passes"] >= 2
    gained = now.get("accuracy", 0.0) > best.get("accuracy", 0.0) + known.error
    return signs.worse >= 3 and fallen and not gained and rise > max(0.1 * best["loss"], 0.05 * (known.chance or 1.0))


def _unmoved(signs: RunStatistics, known: DataProfile) -> bool:
    """Neither loss has changed, and no weight can have, as Adam moves one by about its rate at most in a step."""
    now, begin = signs.evaluations[-1], signs.evaluations[0]
    still = now["train"] > 0.97 * signs.start() - 3 * now["error"] and now["loss"] > 0.98 * begin["loss"]
    seen = bool(signs.first) and now["step"] >= FEW_STEPS and now["share"] >= 0.25
    return seen and still and known.learning_rate * now["step"] < LEAST_PATH


def _stuck(signs: RunStatistics, known: DataProfile) -> bool:
    """Half of the run is over, nothing is known that guessing does not tell, and it has not become better lately."""
    now = signs.evaluations[-1]
    before = [one["loss"] for one in signs.evaluations if one["share"] <= 0.6 * now["share"]]
    late = now["share"] >= 0.5 and not _learnt(signs, known)
    return late and bool(before) and signs.best["loss"] > 0.99 * min(before)


SLOWER = "Try a tenth of the --learning-rate, in another directory (--out)."
Rule = Callable[[RunStatistics, DataProfile], bool]
RULES: tuple[tuple[str, str, Rule, str], ...] = (
    (DIVERGING, HIGH_RATE, _diverges, SLOWER),
    (FAULT, UNKNOWN, lambda s, k: k.unknown > 0.5, "Look at the text column, or at --tokenizer."),
    (FAULT, ALIKE, lambda s, k: k.alike > 0.5, "Look at the text column; --length may cut the rest off."),
    (
        FAULT,
        STRANGE_BASE,
        _strange_base,
        "Its tokenizer may not be the one that it was trained with, or it never saw such text: look at both.",
    ),
    (FAULT, LEAKED, lambda s, k: k.leaked > 0.25, "Scores are too high: hold out other data."),
    (FAULT, ONE_TARGET, _one_target, "Look at the label column; --balance weighs rare labels more."),
    (FAULT, UNLIKE, _unlike, "Look at what is held out, and at its labels (--validation)."),
    (FAULT, UNRELATED, _unrelated, "Look whether each input still stands beside its own target."),
    (OVERFITTING, BY_HEART, _by_heart, "The best weights are kept. More data, --dropout or a smaller model may help."),
    (STUCK, LOW_RATE, _unmoved, "Try ten times the --learning-rate."),
    (
        STUCK,
        NO_GRADIENT,
        lambda s, k: s.norm < 1e-7 and _stuck(s, k),
        "Look at what is frozen (--freeze), and at --precision.",
    ),
    (DIVERGING, HIGH_RATE, lambda s, k: k.learning_rate >= 0.03 and _stuck(s, k), SLOWER),
    (STUCK, WEAK, _stuck, "Try more --time, a larger --preset or another --learning-rate."),
)
"""Word, cause, when it is so, and what to do: the first that holds is the verdict."""
