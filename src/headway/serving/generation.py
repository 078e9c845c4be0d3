"""A request to a model, in the event loop: its texts from the prompts to the last piece, or a pipeline's answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from headway.errors import InputError, OptionError
from headway.serving.models import Served
from headway.serving.responses import RequestError, failed, invalid, too_late, unavailable
from headway.serving.settings import Settings
from headway.serving.state import State
from headway.serving.text_stream import Delta, GenerationOptions, TextStream
from headway.tasks.inputs import Prompt

AT_ONCE = 16
CHARACTERS = 1 << 14
"""Inputs and their characters that are computed before another request, or the end of this one, is looked at."""


class Generation:
    """The texts that a request asks for: ``n`` for each prompt, numbered prompt · n + i.

    They are written while ``async with`` lasts; leaving it cancels what is not over.
    """

    def __init__(
        self, served: Served, prompts: Sequence[Prompt], options: GenerationOptions, state: State, *, n: int = 1
    ):
        self.served, self.prompts, self.settings, self.metrics = served, prompts, state.settings, state.metrics
        self.prompt_tokens = sum(len(prompt.ids) for prompt in prompts)
        self.completion_tokens = 0
        seeds = [options.seed if options.seed is None else (options.seed + i) % (1 << 63) for i in range(n)]
        self.texts = [TextStream(prompt, replace(options, seed=seed)) for prompt in prompts for seed in seeds]
        self._pieces: asyncio.Queue[tuple[int, Delta]] = asyncio.Queue()
        self._first: tuple[int, Delta] | None = None
        self._open: dict[int, float] = {}
        """the texts that are not over, each with the time of its newest token"""
        self._began = time.monotonic()
        self._has_started = False

    async def __aenter__(self) -> "Generation":
        self.served.places.take([len(text.prompt.ids) for text in self.texts])
        for number, text in enumerate(self.texts):
            self._open[number] = self._began
            if text.options.max_tokens:
                self.served.worker.begin(text, partial(self._tell, number))
            else:
                self._tell(number, Delta(finish="length"))
        self.metrics.prompt_tokens.labels(self.served.name).inc(self.prompt_tokens)
        return self

    async def __aexit__(self, *error: Any) -> None:
        for number in list(self._open):
            self.served.worker.leave(self.texts[number])
        if self._open:
            self.metrics.cancelled.labels(self.served.name).inc(len(self._open))
            self._open = {}
        self.metrics.whole.labels(self.served.name).observe(time.monotonic() - self._began)

    def _tell(self, number: int, piece: Delta) -> None:
        """Take a piece of a text, in the event loop."""
        now, name, tokens = time.monotonic(), self.served.name, len(self.texts[number].prompt.ids)
        if piece.count:
            before = self._open.get(number, now)
            kind = self.metrics.first_token if before == self._began else self.metrics.between_tokens
            kind.labels(name).observe(now - before)
            if not self._has_started:
                self.metrics.queued.labels(name).observe(now - self._began)
            self._has_started = True
            self._open[number] = now
            self.completion_tokens += piece.count
            self.metrics.completion_tokens.labels(name).inc(piece.count)
        if piece.finish is not None:
            self._open.pop(number, None)
            self.served.places.leave(tokens)
        self._pieces.put_nowait((number, piece))

    async def started(self) -> None:
        """Wait for the first piece, at most as long as a streamed answer may be silent.

        Raises RequestError where the texts fail, or wait too long.
        """
        try:
            self._first = await self._next(min(self.settings.ping_seconds, self.settings.queue_seconds))
        except TimeoutError:
            if self.settings.queue_seconds <= self.settings.ping_seconds:
                raise unavailable(_waited(self.settings)) from None

    async def __aiter__(self) -> AsyncIterator[tuple[int, Delta] | None]:
        """Pairs (number of the text, piece) until all are over; None after each silence of ``ping_seconds``.

        Raises RequestError where a text fails, and where the whole takes too long.
        """
        over = 0
        if self._first is not None:
            yield self._first
            over, self._first = self._first[1].finish is not None, None
        while over < len(self.texts):
            waited = time.monotonic() - self._began
            if not self._has_started and waited >= self.settings.queue_seconds:
                raise unavailable(_waited(self.settings))
            if waited >= self.settings.total_seconds:
                raise too_late(f"the answer took longer than {self.settings.total_seconds:g} seconds")
            limit = self.settings.total_seconds if self._has_started else self.settings.queue_seconds
            try:
                pair = await self._next(min(self.settings.ping_seconds, max(0.0, limit - waited)))
            except TimeoutError:
                yield None
                continue
            over += pair[1].finish is not None
            yield pair

    async def whole(self) -> list[Delta]:
        """All that is written of each text; the block around it is this function's."""
        found = [Delta() for _ in self.texts]
        async with self:
            async for pair in self:
                if pair is not None:
                    number, piece = pair
                    found[number].text += piece.text
                    found[number].tokens += piece.tokens
                    found[number].finish = piece.finish
        return found

    async def _next(self, seconds: float) -> tuple[int, Delta]:
        pair = await asyncio.wait_for(self._pieces.get(), seconds)
        if pair[1].error is not None:
            error = pair[1].error
            raise error if isinstance(error, RequestError) else failed() from error
        if pair[1].finish == "cancelled":
            raise unavailable("the server is stopping")
        return pair

    def usage(self) -> dict[str, int]:
        """Tokens read and written."""
        read, written = self.prompt_tokens, self.completion_tokens
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def check_fits(served: Served, prompts: Sequence[Prompt], most: int | None, param: str) -> int:
    """The number of tokens that may be written: ``most``, or what is left of the context, at least one.

    Raises RequestError where a prompt with them is longer than the model reads.
    """
    longest = max(len(prompt.ids) for prompt in prompts)
    left = served.context - longest
    if left < (1 if most is None else most):
        asked = "" if most is None else f" and {most:,} to write were asked for"
        raise invalid(
            f"the model reads at most {served.context:,} tokens; the prompt has {longest:,}{asked}",
            param,
            "context_length_exceeded",
        )
    return left if most is None else most


def characters(text: str | Sequence[str | int]) -> int:
    """How long a text is, or the list of its words or ids."""
    return len(text) if isinstance(text, str) else sum(len(str(part)) + 1 for part in text)


def parts(texts: Sequence[Any]) -> list[list[Any]]:
    """Texts, or lists of their words, in parts that are computed at once."""
    found: list[list[Any]] = []
    size = 0
    for text in texts:
        size += characters(text)
        if not found or len(found[-1]) == AT_ONCE or size > CHARACTERS:
            found.append([])
            size = characters(text)
        found[-1].append(text)
    return found


async def answered(
    served: Served, answer: Callable[[Any], Any], work: Sequence[Any], size: int, state: State, param: str
) -> list[Any]:
    """What the worker's thread finds for each part of some work; ``size`` is its characters.

    Raises RequestError: where there is no place, where it waits or takes too long, and for wrong input, which is named
    ``param`` unless it is an option.
    """
    settings, metrics = state.settings, state.metrics
    served.places.take([size])
    began, begun = time.monotonic(), asyncio.get_running_loop().create_future()
    working = asyncio.ensure_future(served.worker.run(answer, work, begun))
    try:
        done, _ = await asyncio.wait({working, begun}, timeout=settings.queue_seconds, return_when="FIRST_COMPLETED")
        if not done:
            raise unavailable(_waited(settings))
        metrics.queued.labels(served.name).observe(time.monotonic() - began)
        found = await asyncio.wait_for(asyncio.shield(working), settings.total_seconds)
        metrics.whole.labels(served.name).observe(time.monotonic() - began)
        return found
    except InputError as error:
        option = str(error).split()[0] if isinstance(error, OptionError) else param
        raise invalid(str(error), option) from None
    except RequestError:
        raise
    except asyncio.CancelledError:
        metrics.cancelled.labels(served.name).inc()
        raise
    except TimeoutError:
        raise too_late(f"the answer took longer than {settings.total_seconds:g} seconds") from None
    except Exception as error:
        raise failed() from error
    finally:
        working.cancel()
        served.places.leave(size)


def _waited(settings: Settings) -> str:
    return f"the request waited for {settings.queue_seconds:g} seconds and was not begun: try again"
