"""The progress of a run: by steps, or by the wall-clock time of the whole command."""

import time

ENDING = 1.5
"""Seconds that saving, the report and exit need on a machine that does nothing else."""
MOST_LOAD = 8.0
"""How many times as long they are expected to take at most, on a busy one."""


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
