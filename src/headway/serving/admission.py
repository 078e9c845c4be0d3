"""How much may be computed and wait at a time: what is more is refused at once instead of being late."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headway.serving.errors import busy, invalid, unavailable

LONGEST_RETRY = 30
"""Seconds."""
RECENT = 0.1
"""The weight of the newest text in the mean time between two that are over."""


class Places:
    """The places of a model's texts: those being computed and those that wait.  Used by the event loop alone."""

    def __init__(self, running: int, queue: int, queued_tokens: int):
        self.running, self.most, self.most_tokens = running, running + queue, queued_tokens
        self.taken = self.tokens = 0
        self.closed = ""
        """why nothing is admitted any more"""
        self._pace = 0.0
        """seconds between two texts that are over, while others wait"""
        self._left_at: float | None = None
        """when the last one was over, if others waited then"""

    @property
    def full(self) -> bool:
        """Whether there is no place for one more text."""
        return not self.closed and self.taken >= self.most

    def check(self, count: int = 1) -> None:
        """Raise RequestError unless ``count`` more texts have a place."""
        if self.closed:
            raise unavailable(self.closed)
        if count > self.most:
            raise invalid(f"the request asks for {count} texts, and {self.most} may be computed or wait: ask for fewer")
        if self.taken + count > self.most:
            words = f"{self.taken} texts are being computed or wait, and there is place for {self.most}: try again"
            raise busy(words, self.retry_after)

    def take(self, tokens: list[int]) -> None:
        """Take a place for each text, given the tokens of each.  Raises RequestError."""
        self.check(len(tokens))
        waits = self.taken + len(tokens) > self.running
        if waits and self.tokens + sum(tokens) > self.most_tokens:
            words = f"{self.tokens:,} tokens wait already, and {self.most_tokens:,} may: try again"
            raise busy(words, self.retry_after)
        self.taken += len(tokens)
        self.tokens += sum(tokens)

    @contextmanager
    def held(self, count: int = 1) -> Iterator[None]:
        """Hold places for texts whose tokens are not known yet, until the block ends.  Raises RequestError."""
        self.check(count)
        self.taken += count
        try:
            yield
        finally:
            self.taken -= count

    def leave(self, tokens: int) -> None:
        """Give back the place of one text with so many tokens."""
        self.taken -= 1
        self.tokens -= tokens
        now = time.monotonic()
        if self._left_at is not None:
            gap = now - self._left_at
            self._pace += (RECENT if self._pace else 1.0) * (gap - self._pace)
        self._left_at = now if self.taken >= self.running else None

    @property
    def retry_after(self) -> int:
        """Whole seconds in which those who wait now will have a turn, at the present pace: at least 1."""
        waiting = max(0, self.taken - self.running)
        return min(LONGEST_RETRY, max(1, math.ceil(waiting * self._pace)))
