"""Learning rate schedules: a factor from 0 to 1 as a function of the progress of the run, from 0 to 1.

Progress, not steps, so that one rule serves a run bounded by steps and one bounded by time.
"""

import math

SCHEDULES = ("cosine", "linear", "inverse_sqrt", "constant_then_decay")
FLOOR = 0.05
"""The final factor of the schedules that decay (nanoGPT ends at a tenth, nanochat at a twentieth)."""
DECAY = 0.6
"""constant_then_decay: the share of the run in which the rate falls, linearly (0.45 to 0.7 is published)."""


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
