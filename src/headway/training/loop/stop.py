"""Signals only request a stop; the run stops where nothing is lost."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from headway.training.ranks import Ranks

Item = TypeVar("Item")

NAMES = ("SIGINT", "SIGTERM", "SIGUSR1")
"""Ctrl-C; the end of a job, as batch systems announce it; and what they send some time before it, if asked to."""
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))


GRACE = 5.0
"""Seconds that a step of several batches may still take, before it is abandoned."""


class StopRequested(Exception):
    """A stop was requested; unfinished work is abandoned, and repeated when the run resumes."""


class Stop:
    """While this context is active, the first of SIGNALS requests a stop; the second ends the program at once."""

    def __init__(self, ranks: Ranks | None = None) -> None:
        self.ranks = ranks or Ranks()
        self.asked = False
        self._since = 0.0
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def poll(self, grace: float = 0.0) -> None:
        """Raise StopRequested if any rank was asked at least ``grace`` seconds ago; all ranks call it together."""
        if self.ranks.all_reduce_max(self.asked and time.monotonic() - self._since >= grace)[0]:
            raise StopRequested

    def between(self, items: Iterable[Item]) -> Iterator[Item]:
        """The same items; ``poll`` before each."""
        for item in items:
            self.poll()
            yield item

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """While this context is active, a request raises StopRequested at once; so does one GRACE seconds before it.

        With several ranks a request waits for the next step, so that no rank leaves the others waiting.
        """
        self.poll(GRACE)
        self._waiting = self.ranks.count == 1
        try:
            yield
        finally:
            self._waiting = False

    def _ask(self, number: int, frame: Any) -> None:
        if self.asked:
            for known, handler in self._before.items():
                signal.signal(known, handler)
            raise KeyboardInterrupt
        self.asked, self._since = True, time.monotonic()
        if self._waiting:
            raise StopRequested
