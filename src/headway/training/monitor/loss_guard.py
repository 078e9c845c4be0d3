"""Steps whose numbers are wrong: not finite, or a loss far above those before it."""

import math
import statistics
from collections.abc import Sequence

from headway.data.batches.batch_source import BatchSource, Position
from headway.errors import RunFailed
from headway.training.loop.state import State
from headway.training.monitor.progress import Progress
from headway.training.store.run_directory import RunDirectory

MOST_BAD_STEPS = 3
"""Steps in a row with a loss or a gradient that is not finite, before training stops."""
RECENT, LEAST = 128, 32
"""How many recent losses a new one is compared with, and the fewest that are needed for it."""
DEVIATIONS = 6.0
"""A loss that is this many standard deviations above the mean of the recent ones is a spike (OLMo 2: 6)."""
LEAST_DEVIATION = 0.02
"""Least height of a spike, relative to the mean: small changes of a nearly constant loss are not spikes."""
SAID = 3
"""Spikes that are reported; later ones are only in the log."""
NAMED = 64
"""Maximum number of examples that a line of the log names."""
ADVICE = "Try a smaller --learning-rate or --precision float32, with another --out."


class Diverged(RunFailed):
    """The loss or its gradient was not finite several times in a row."""


class LossGuard:
    """Judges every step before it changes the weights."""

    def __init__(
        self, state: State, batch_source: BatchSource, run: RunDirectory, progress: Progress, skip: bool = False
    ):
        self.state, self.batch_source, self.run, self.progress, self.skip = state, batch_source, run, progress, skip
        self._said = 0

    def allows(self, loss: float, norm: float, positions: Sequence[Position]) -> bool:
        """Whether to apply a step with this loss, gradient norm and these batches.

        Raises Diverged when too many steps in a row were not finite.
        """
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._count_bad(loss, norm, positions)
            return False
        self.state.bad_steps = 0
        limit = spike_limit(self.state.recent)
        self.state.recent = [*self.state.recent[1 - RECENT :], min(loss, limit)]
        self.state.signs.step(loss, norm, self.state.recent)
        if loss <= limit:
            return True
        self._note("spike", loss, norm, positions)
        if self._said < SAID:
            self._said += 1
            what = "skipped" if self.skip else "kept (--on-spike skip leaves such steps out)"
            self.progress.warn(
                f"step {self.state.step + 1:,}: loss {loss:.4g} is a spike (expected at most {limit:.4g}); "
                f"the step was {what}"
            )
        return not self.skip

    def _count_bad(self, loss: float, norm: float, positions: Sequence[Position]) -> None:
        """Record a step that changes no weight; too many in a row end the run."""
        self.state.bad_steps += 1
        self._note("bad step", loss, norm, positions)
        if self.state.bad_steps >= MOST_BAD_STEPS:
            raise Diverged(
                f"the loss or the gradient was not finite {MOST_BAD_STEPS} times in a row, at step "
                f"{self.state.step + 1} (loss {loss}, gradient {norm}); the best weights so far are saved. {ADVICE}"
            )

    def _note(self, event: str, loss: float, norm: float, positions: Sequence[Position]) -> None:
        examples = [number for position in positions for number in self.batch_source.examples(position)]
        self.run.log(event, step=self.state.step + 1, loss=loss, norm=norm, examples=examples[:NAMED])


def spike_limit(recent: Sequence[float]) -> float:
    """The loss above which a step is a spike; infinity while there are few recent losses."""
    if len(recent) < LEAST:
        return math.inf
    mean = statistics.fmean(recent)
    return mean + DEVIATIONS * max(statistics.pstdev(recent, mean), LEAST_DEVIATION * abs(mean))
