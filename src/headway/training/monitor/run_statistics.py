"""What a verdict on a run is based on: the profile of its data, and the statistics of its steps and evaluations.

Losses are nats per target; a share is the progress of the run, 0 to 1; passes are epochs over the data.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
