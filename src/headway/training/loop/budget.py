"""The progress of a run: by steps, or by the wall-clock time of the whole command."""

import time


class StepBudget:
    """A run of ``steps`` steps, or of so many after step ``since``."""

    def __init__(self, steps: int, since: int = 0):
        self.steps, self.since = steps, since

    def share(self, step: int) -> float:
        """The part of the run that is done, 0 to 1."""
        return min(1.0, (step - self.since) / self.steps)

    def keep(self, seconds: float) -> None:
        """Steps need nothing kept."""


class TimeBudget:
    """A run that ends, saving included, ``seconds`` after ``started`` (by time.monotonic), less the time already spent.

    ``keep`` says how many seconds the end of the run will need; training itself ends before them.
    """

    def __init__(self, seconds: float, started: float, spent: float = 0.0):
        self.end = started + seconds - spent
        self.began = time.monotonic() - spent  # of training, as if it had run without a break
        self.kept = 0.0

    def begin(self, spent: float) -> None:
        """Training begins now; ``spent`` seconds of it were done by an earlier command."""
        self.began = time.monotonic() - spent

    def share(self, step: int) -> float:
        """The part of the time for training that is done, 0 to 1."""
        whole = self.end - self.kept - self.began
        return 1.0 if whole <= 0 else min(1.0, (time.monotonic() - self.began) / whole)

    def keep(self, seconds: float) -> None:
        """Reserve ``seconds`` for what comes after training."""
        self.kept = seconds


Budget = StepBudget | TimeBudget
