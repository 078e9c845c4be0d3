"""The work of a request that a pipeline answers, as the worker's thread is given it: in parts."""

import asyncio
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Protocol


class Joinable(Protocol):
    """An ``answer`` of which several of one ``kind`` can answer their inputs in one call.

    Parts that are lists are inputs: ``answer(part)`` is ``take(compute(part))`` for them.
    """

    kind: Hashable
    most: int
    """inputs that are computed in one call"""

    def __call__(self, part: Any) -> Any:
        """What is found for a part."""

    def compute(self, inputs: list[Any]) -> Sequence[Any]:
        """The answers to some inputs, in order; none depends on the others."""

    def take(self, answers: Sequence[Any]) -> Any:
        """Keep the answers to a part."""


class Job:
    """The parts of a request that a pipeline answers, one after the other."""

    def __init__(
        self,
        answer: Any,
        parts: Sequence[Any],
        done: asyncio.Future[list[Any]],
        begun: asyncio.Future[None] | None,
    ):
        self.answer, self.parts, self.done, self.begun = answer, deque(parts), done, begun
        self.found: list[Any] = []
        self.left = False


class Left(Exception):
    """Nobody waits any more for what is being computed."""
