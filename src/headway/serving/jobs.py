"""A request that a pipeline answers: it takes a place, waits for its turn, and is computed some inputs at a time."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from headway.errors import InputError, OptionError
from headway.serving.models import Served
from headway.serving.responses import RequestError, failed, invalid, too_late, unavailable
from headway.serving.state import State

AT_ONCE = 16
CHARACTERS = 1 << 14
"""Inputs and their characters that are computed before another request, or the end of this one, is looked at."""


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
            raise unavailable(f"the request waited for {settings.queue_seconds:g} seconds and was not begun: try again")
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
