"""The progress of a run, from 0 to 1 by steps or by time, and the rate and batches that follow from it."""

import math
import time

SCHEDULES = ("cosine", "linear", "inverse_sqrt", "constant_then_decay")
FLOOR = 0.05
"""The final factor of the schedules that decay (nanoGPT ends at a tenth, nanochat at a twentieth)."""
DECAY = 0.6
"""constant_then_decay: the share of the run in which the rate falls, linearly (0.45 to 0.7 is published)."""
ENDING = 1.5
"""Seconds that saving, the report and exit need on a machine that does nothing else."""
MOST_LOAD = 8.0
"""How many times as long they are expected to take at most, on a busy one."""


def factor(share: float, kind: str, warmup: float) -> float:
    """The learning rate's factor when ``share`` of the run is done: linear warm-up, then the schedule.

    Raises ValueError for an unknown schedule.
    """
    if kind not in SCHEDULES:
        raise ValueError(f"schedule {kind!r} is not one of {', '.join(SCHEDULES)}")
    if share < warmup:
        return max(share / warmup, 1e-3)
    after = min(1.0, (share - warmup) / (1 - warmup))  # 0 to 1 after warm-up
    if kind == "cosine":
        return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * after))
    if kind == "linear":
        return FLOOR + (1 - FLOOR) * (1 - after)
    if kind == "inverse_sqrt":
        return math.sqrt(warmup / share) if warmup else 1.0 / math.sqrt(1.0 + 50.0 * share)
    return min(1.0, FLOOR + (1 - FLOOR) * (1 - share) / DECAY)


def accumulation(share: float, base: int, growth: int) -> int:
    """Batches per step when ``share`` is done: ``base`` at first, in equal stages up to ``base`` × ``growth``."""
    return base * min(growth, 1 + int(share * growth))


def mean_accumulation(base: int, growth: int) -> float:
    """The mean of ``accumulation`` over a whole run of steps: what a step reads is so many times ``batch_tokens``."""
    return base * (1 + growth) / 2


class StepBudget:
    """A run of ``steps`` steps, or of so many after step ``since``."""

    def __init__(self, steps: int, since: int = 0):
        self.steps, self.since = steps, since

    def share(self, step: int) -> float:
        """The part of the run that is done, 0 to 1."""
        return min(1.0, (step - self.since) / self.steps)

    def keep(self, **seconds: float) -> None:
        """Steps need nothing kept."""


class TimeBudget:
    """A run that ends, saving included, ``seconds`` after ``started`` (by time.monotonic), less the time already spent.

    Training begins now.  ``kept`` are the seconds that each part of the end of the run will need, by its name; training
    itself ends before them.
    """

    def __init__(self, seconds: float, started: float, spent: float = 0.0, kept: dict[str, float] | None = None):
        self.end, self.kept = started + seconds - spent, dict(kept or {})
        self.began = time.monotonic() - spent  # of training, as if it had run without a break

    def share(self, step: int) -> float:
        """The part of the time for training that is done, 0 to 1."""
        whole = self.end - sum(self.kept.values()) - self.began
        return 1.0 if whole <= 0 else min(1.0, (time.monotonic() - self.began) / whole)

    def keep(self, **seconds: float) -> None:
        """Reserve seconds for something that comes after training, or, by its name, other seconds than before."""
        self.kept |= seconds


class Load:
    """How busy the machine is: the time that something takes here, to the time that a processor works on it."""

    def __init__(self) -> None:
        self.began, self.worked = time.monotonic(), time.thread_time()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self.began

    @property
    def ending(self) -> float:
        """The seconds that the end of a run takes on a machine as busy as it was since this was made."""
        busy = self.seconds / max(time.thread_time() - self.worked, 1e-9)
        return ENDING * min(MOST_LOAD, max(1.0, busy))


Budget = StepBudget | TimeBudget
