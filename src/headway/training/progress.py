"""Progress on stderr: a bar on a terminal, elsewhere a line now and then."""

import contextlib
import sys
import time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as RichProgress

from headway.errors import printable
from headway.io.quantities import duration
from headway.io.standard_streams import never_failing

EVERY = 30.0
"""Seconds between lines where there is no terminal."""


class Progress:
    """How the user is told what happens; every method may do nothing."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def warn(self, text: str) -> None:
        self.say(f"warning: {text}")

    def phase(self, text: str) -> None:
        """What is being done now, before the bar is shown."""

    def step(self, share: float, step: int, loss: float, seconds_left: float | None, tokens_per_second: float) -> None:
        """Where training is."""

    def evaluated(self, share: float, cost: float) -> None:
        """An evaluation is done, at this share of the run; evaluations are compared by ``cost``.

        An error that it raises ends the run as a kill would: with its best model saved, but not finished.
        """

    def close(self) -> None:
        """Training is over, or has been stopped."""


class NoProgress(Progress):
    """Shows nothing."""


class Quiet(Progress):
    """Shows warnings only."""

    def warn(self, text: str) -> None:
        _to_stderr(f"warning: {text}")


class Lines(Progress):
    """For logs and pipes: every message, and a progress line every half minute."""

    def __init__(self) -> None:
        self.shown = time.monotonic()

    def say(self, text: str) -> None:
        _to_stderr(text)

    def phase(self, text: str) -> None:
        self.say(f"{text} ...")

    def step(self, share: float, step: int, loss: float, seconds_left: float | None, tokens_per_second: float) -> None:
        if time.monotonic() - self.shown >= EVERY:
            self.shown = time.monotonic()
            self.say(_line(share, step, loss, seconds_left, tokens_per_second))


class Bar(Progress):
    """For a terminal."""

    def __init__(self) -> None:
        self.console = Console(file=never_failing(sys.stderr))
        columns = (BarColumn(bar_width=24), TaskProgressColumn(), TextColumn("{task.description}"))
        self.bar = RichProgress(*columns, console=self.console, transient=True)
        self.task: Any = None
        self.status: Any = None

    def say(self, text: str) -> None:
        self.console.print(escape(printable(text)), highlight=False)

    def phase(self, text: str) -> None:
        self._end_status()
        self.status = self.console.status(escape(printable(text)))
        self.status.start()

    def step(self, share: float, step: int, loss: float, seconds_left: float | None, tokens_per_second: float) -> None:
        self._end_status()
        if self.task is None:
            self.bar.start()
            self.task = self.bar.add_task("", total=1.0)
        line = _line(share, step, loss, seconds_left, tokens_per_second)
        self.bar.update(self.task, completed=share, description=escape(line))

    def close(self) -> None:
        self._end_status()
        if self.task is not None:
            self.bar.stop()
            self.task = None

    def _end_status(self) -> None:
        if self.status is not None:
            self.status.stop()
            self.status = None


def shown_to(quiet: bool) -> Progress:
    """The kind of progress that suits this terminal or pipe."""
    if quiet:
        return Quiet()
    return Bar() if sys.stderr is not None and sys.stderr.isatty() else Lines()


def _to_stderr(text: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):  # a line that is lost does not end a training run
            print(printable(text), file=sys.stderr, flush=True)


def _line(share: float, step: int, loss: float, seconds_left: float | None, tokens_per_second: float) -> str:
    left = f", {duration(seconds_left)} left" if seconds_left is not None else ""
    return f"step {step:,} ({share:.0%}), loss {loss:.3f}, {tokens_per_second:,.0f} tokens/s{left}"
