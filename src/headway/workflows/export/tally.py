"""What the comparison of an export adds up, answer by answer.

Letters: T length, V vocabulary.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor

from headway.tasks.checks import behind, worst
from headway.workflows.export.parity import Parity, exceeding, magnitude

HERE, THERE = 0, 1
"""Whose time is taken: Headway's, or that of the program that reads the export."""


@dataclass
class Tally:
    """The largest differences, the equal answers, and the time that they took."""

    difference: float = 0.0
    """the largest between numbers here and there"""
    lag: float = 0.0
    """the largest by which a choice there is less likely here than the likeliest"""
    size: float = 1.0
    """the magnitude of the numbers here, with which rounding errors grow"""
    equal: int = 0
    answers: int = 0
    """how many answers there are also the answers here, and of how many"""
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """how long the answers took here and there"""

    def compare(self, here: Tensor, there: Tensor) -> None:
        """Numbers of one shape."""
        self.size = max(self.size, magnitude(here))
        self.difference = worst(self.difference, here - there)

    def choose(self, logits: Tensor, tokens: Tensor) -> None:
        """The tokens (T,) that were written there, and the logits (T, V) that each was chosen by here."""
        self.size = max(self.size, magnitude(logits))
        self.lag = worst(self.lag, behind(logits, tokens))
        self.count(logits.argmax(dim=-1) == tokens)

    def count(self, equal: Tensor) -> None:
        """Answers, true where they are equal."""
        self.equal += int(equal.sum())
        self.answers += equal.numel()

    def parity(self, bound: float | None, texts: int, over: str, differ: str, lag: str = "") -> Parity:
        """The result: the bound is multiplied by the size; ``differ`` and ``lag`` say what is too far apart."""
        bound = None if bound is None else bound * self.size
        problems = exceeding(self.difference, bound, differ) + exceeding(self.lag, bound, lag)
        return Parity(
            self.difference,
            over=over,
            bound=bound,
            agreement=(self.equal, self.answers) if self.answers else None,
            texts=texts,
            problem="; ".join(problems) or None,
            seconds=(self.seconds[HERE], self.seconds[THERE]),
        )


@contextmanager
def timed(seconds: list[float], place: int) -> Iterator[None]:
    """Add what passes inside the context to one of the times."""
    began = time.perf_counter()
    try:
        yield
    finally:
        seconds[place] += time.perf_counter() - began
