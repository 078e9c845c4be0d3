"""How a run is doing: a verdict at each evaluation, the likeliest cause and what to do; losses are nats per target."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

LEARNING, STUCK, OVERFITTING, DIVERGING, FAULT = "learning", "stuck", "overfitting", "diverging", "data fault"

HIGH_RATE = "the learning rate is too high"
UNKNOWN = "the tokenizer does not know the text"
STRANGE_BASE = "the model of --from does worse on this text than uniform guessing"
ALIKE = "the inputs are nearly all the same"
LEAKED = "the held-out data also occur in the training data"
ONE_TARGET = "the targets are nearly all the same"
UNLIKE = "the held-out data differ from the training data"
UNRELATED = "the targets do not depend on the inputs"
BY_HEART = "the model has memorised the training data"
LOW_RATE = "the learning rate is too low"
NO_GRADIENT = "no gradient reaches the weights"
WEAK = "the model is too small, or the time too short, for this task"

LEAST_PATH = 5e-4
"""Learning rate times steps: below this, no weight can have moved far enough to learn anything."""
FEW = 30
"""With fewer held-out examples, their metrics are not used to judge the data."""
FEW_STEPS = 20
"""Steps after which an unchanged loss counts as a problem."""


START, SMOOTH, WINDOW, KEPT = 8, 4, 8, 40
"""Steps averaged for the start; losses averaged for the peak; the fewest steps averaged at an evaluation; evaluations
that are remembered."""
HUGE = 1e9
"""Used in place of a loss that is not finite."""


@dataclass(frozen=True)
class DataProfile:
    """What is known of a run before its first step; None where it does not apply or was not measured."""

    learning_rate: float = 0.0
    pretrained: bool = False
    """whether the run begins from a model that already does its task"""
    uniform: float | None = None
    """loss of guessing uniformly among all tokens"""
    chance: float | None = None
    """held-out loss of guessing by how often each target occurs in training, whatever the input"""
    simple: float | None = None
    """held-out loss of bigrams; for pairs of texts, bigrams of the targets only"""
    majority: float | None = None
    """held-out accuracy, and below macro F1, of the most frequent label"""
    majority_f1: float | None = None
    linear: float | None = None
    """held-out accuracy of a linear model"""
    paired: float | None = None
    """how often a held-out target fits its source better than the next one's does; a half where nothing fits"""
    examples: int = 0
    """held-out examples"""
    leaked: float = 0.0
    """share of the held-out part that occurs in training"""
    alike: float = 0.0
    """share of the training inputs that are the most frequent one"""
    one_target: float = 0.0
    """share of the training targets that are the most frequent one"""
    unknown: float = 0.0
    """share of the training tokens that are the unknown token"""

    @property
    def error(self) -> float:
        """The largest standard error that an accuracy on the held-out examples can have."""
        return 0.5 / math.sqrt(max(1, self.examples))


@dataclass
class RunStatistics:
    """What a run has shown so far, in plain values of bounded size, so that a checkpoint can hold them."""

    first: list[float] = field(default_factory=list)
    """losses of the first START steps"""
    peak: float = 0.0
    """the highest mean of SMOOTH losses in a row"""
    since: int = 0
    """steps since the last evaluation"""
    norm: float = 0.0
    """norm of the latest gradient"""
    evaluations: list[dict[str, float]] = field(default_factory=list)
    """the first and the latest: step, share, passes, loss, train (mean loss of the later half of the steps since
    the one before), error (the standard error of that), and where they are measured accuracy and macro_f1"""
    best: dict[str, float] = field(default_factory=dict)
    """the evaluation with the lowest loss"""
    worse: int = 0
    """evaluations since the best"""
    said: str = "learning"
    """the verdict that was shown last; "learning" is not shown at first"""

    def step(self, loss: float, norm: float, recent: Sequence[float]) -> None:
        """Add a step with finite numbers; ``recent`` are the losses of the latest steps, this one last."""
        if len(self.first) < START:
            self.first.append(loss)
        self.since, self.norm = self.since + 1, norm
        self.peak = max(self.peak, statistics.fmean(recent[-SMOOTH:]) if len(recent) >= SMOOTH else 0.0)

    def evaluated(
        self, metrics: dict[str, Any], *, step: int, share: float, passes: float, recent: Sequence[float]
    ) -> None:
        """Add an evaluation; ``recent`` are the losses of the latest steps."""
        window = list(recent[-max(WINDOW, self.since // 2) :])
        loss, train = float(metrics.get("val_loss", HUGE)), statistics.fmean(window) if window else HUGE
        error = statistics.pstdev(window) / math.sqrt(len(window)) if window else 0.0
        found: dict[str, float] = {"step": step, "share": share, "passes": passes, "train": train, "error": error}
        found["loss"] = loss if math.isfinite(loss) else HUGE
        found |= {name: float(metrics[name]) for name in ("accuracy", "macro_f1") if name in metrics}
        self.evaluations.append(found)
        del self.evaluations[1 : max(1, len(self.evaluations) - KEPT)]
        self.worse += 1
        if not self.best or found["loss"] < self.best["loss"]:
            self.best, self.worse = dict(found), 0
        self.since = 0

    def start(self, steps: int = START) -> float:
        """The mean loss of the first steps."""
        return statistics.fmean(self.first[:steps]) if self.first else HUGE


@dataclass(frozen=True)
class Health:
    """A verdict: the word, the likeliest cause (empty while the run learns), and what to do."""

    word: str = LEARNING
    cause: str = ""
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.cause}. {self.advice}" if self.cause else self.word


def judge(signs: RunStatistics, known: DataProfile) -> Health:
    """The verdict after the latest evaluation.  Raises ValueError before the first one.

    Rules are tried in order: numerical failures, problems in the data, the progress of training.
    """
    if not signs.evaluations:
        raise ValueError("a run can only be judged after an evaluation, and there was none")
    for word, cause, holds, advice in RULES:
        if holds(signs, known):
            return Health(word, cause, advice)
    return Health()


def _learnt(signs: RunStatistics, known: DataProfile, reference: float | None = None) -> bool:
    """Whether any evaluation was clearly better than guessing (and than the ``reference`` loss), as far as is known."""
    if known.chance is None:
        return True
    level = known.chance if reference is None else min(known.chance, reference)
    found = (signs.best, signs.evaluations[-1])
    return any(one["loss"] < 0.97 * level or _right(one, known) > 2 for one in found)


def _right(one: dict[str, float], known: DataProfile) -> float:
    """How many standard errors an evaluation's accuracy is above the accuracy of the most frequent label."""
    if known.majority is None or "accuracy" not in one:
        return 0.0
    return (one["accuracy"] - known.majority) / known.error


def _diverges(signs: RunStatistics, known: DataProfile) -> bool:
    """The loss is not finite or well above its start; or it was, and the model has not recovered since."""
    now, start = signs.evaluations[-1], signs.start()
    if now["loss"] >= HUGE or not signs.first:
        return now["loss"] >= HUGE
    noise = 3 * math.hypot(now["error"], statistics.pstdev(signs.first) / math.sqrt(len(signs.first)))
    if now["train"] > start + max(0.2 * start, 0.1 * (known.chance or start)) + noise:
        return True
    peak = 1.15 if known.uniform is not None else 1.5  # times the start: batches of few targets are noisy
    return signs.peak > peak * signs.start(2) and not _learnt(signs, known, reference=known.simple)


def _strange_base(signs: RunStatistics, known: DataProfile) -> bool:
    """A pretrained model begins worse than uniform guessing: it was trained on other tokens or another kind of text."""
    trained = known.pretrained and known.uniform is not None and bool(signs.first)
    return trained and signs.start(4) > 1.02 * (known.uniform or 0.0)


def _one_target(signs: RunStatistics, known: DataProfile) -> bool:
    """Nearly all targets are the same, and the model predicts nothing else."""
    now = signs.evaluations[-1]
    if known.majority_f1 is None:
        return known.one_target > 0.5
    return known.one_target > 0.9 and now["share"] >= 0.3 and now.get("macro_f1", 1.0) <= known.majority_f1 + 0.02


def _unlike(signs: RunStatistics, known: DataProfile) -> bool:
    """In the first epoch every batch is new, so its loss shows what the held-out loss should be.

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
    """Neither the model nor a simple one can predict the targets from the inputs."""
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


def memorised(loss: float, train: float, best_loss: float, best_train: float) -> bool:
    """Whether the training loss has fallen since the best evaluation, below every held-out loss, while that rose.

    Label smoothing alone raises both, as it keeps a model from certainty.
    """
    return loss > best_loss > train and train < 0.9 * best_train


def _by_heart(signs: RunStatistics, known: DataProfile) -> bool:
    """The model has been memorising for some time, and the held-out loss has risen clearly."""
    if known.examples < FEW:
        return False
    now, best = signs.evaluations[-1], signs.best
    rise = now["loss"] - best["loss"]
    fallen = memorised(now["loss"], now["train"], best["loss"], best["train"]) and now["passes"] >= 2
    gained = now.get("accuracy", 0.0) > best.get("accuracy", 0.0) + known.error
    return signs.worse >= 3 and fallen and not gained and rise > max(0.1 * best["loss"], 0.05 * (known.chance or 1.0))


def _unmoved(signs: RunStatistics, known: DataProfile) -> bool:
    """Neither loss has changed, nor can any weight have: Adam moves one by at most about the learning rate per step."""
    now, begin = signs.evaluations[-1], signs.evaluations[0]
    still = now["train"] > 0.97 * signs.start() - 3 * now["error"] and now["loss"] > 0.98 * begin["loss"]
    seen = bool(signs.first) and now["step"] >= FEW_STEPS and now["share"] >= 0.25
    return seen and still and known.learning_rate * now["step"] < LEAST_PATH


def _stuck(signs: RunStatistics, known: DataProfile) -> bool:
    """Half of the run is over, the model is no better than guessing, and it has not improved lately."""
    now = signs.evaluations[-1]
    before = [one["loss"] for one in signs.evaluations if one["share"] <= 0.6 * now["share"]]
    late = now["share"] >= 0.5 and not _learnt(signs, known)
    return late and bool(before) and signs.best["loss"] > 0.99 * min(before)


SLOWER = "Try a tenth of the --learning-rate, with another --out."
Rule = Callable[[RunStatistics, DataProfile], bool]
RULES: tuple[tuple[str, str, Rule, str], ...] = (
    (DIVERGING, HIGH_RATE, _diverges, SLOWER),
    (FAULT, UNKNOWN, lambda s, k: k.unknown > 0.5, "Check the text column, or --tokenizer."),
    (FAULT, ALIKE, lambda s, k: k.alike > 0.5, "Check the text column; --length may cut off what differs."),
    (
        FAULT,
        STRANGE_BASE,
        _strange_base,
        "It may have been trained with another tokenizer, or on another kind of text: check both.",
    ),
    (FAULT, LEAKED, lambda s, k: k.leaked > 0.25, "The metrics are too high: hold out other data."),
    (FAULT, ONE_TARGET, _one_target, "Check the label column; --balance gives rare labels more weight."),
    (FAULT, UNLIKE, _unlike, "Check the held-out data and their labels (--validation)."),
    (FAULT, UNRELATED, _unrelated, "Check that each input is still in the same row as its own target."),
    (OVERFITTING, BY_HEART, _by_heart, "The best weights are kept. More data, --dropout or a smaller model may help."),
    (STUCK, LOW_RATE, _unmoved, "Try ten times the --learning-rate."),
    (
        STUCK,
        NO_GRADIENT,
        lambda s, k: s.norm < 1e-7 and _stuck(s, k),
        "Check what is frozen (--freeze), and --precision.",
    ),
    (DIVERGING, HIGH_RATE, lambda s, k: k.learning_rate >= 0.03 and _stuck(s, k), SLOWER),
    (STUCK, WEAK, _stuck, "Try more --time, a larger --preset or another --learning-rate."),
)
"""Word, cause, condition and advice: the first rule whose condition holds gives the verdict."""
