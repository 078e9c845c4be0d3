"""What comes back: JSON, an error, a stream of events; and what happens when the client leaves before."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from headway.serving.errors import RequestError, failed
from headway.serving.in_thread import in_thread

T = TypeVar("T")
STREAM = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}
DONE = b"data: [DONE]\n\n"
PING = b": waiting\n\n"


class ClientGone(Exception):
    """The client has closed the connection."""


def as_json(value: Any) -> bytes:
    """A value as JSON.  Raises RequestError for numbers that JSON does not have."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
    except ValueError:
        raise failed("the model gave values that are no numbers") from None


def in_pieces(value: Any, levels: int = 3) -> bytes:
    """The same, the values of the outer levels one by one: other threads have their turn in between."""
    if levels and isinstance(value, dict):
        return (
            b"{" + b",".join(as_json(str(key)) + b":" + in_pieces(one, levels - 1) for key, one in value.items()) + b"}"
        )
    if levels and isinstance(value, list):
        return b"[" + b",".join(in_pieces(one, levels - 1) for one in value) + b"]"
    return as_json(value)


async def answer_in_pieces(value: Any) -> Any:
    """``answer`` for a value that may be large, which is written as JSON outside the event loop."""
    return answer(await in_thread(in_pieces, value))


def event(value: Any) -> bytes:
    """A value as an event of a stream."""
    return b"data: " + as_json(value) + b"\n\n"


def answer(value: Any, kind: str = "application/json") -> Any:
    """A successful response: a value as JSON, or bytes of another kind."""
    from starlette.responses import Response

    return Response(value if isinstance(value, bytes) else as_json(value), headers={"content-type": kind})


def refusal(error: RequestError) -> Any:
    """The response to an error."""
    from starlette.responses import Response

    return Response(as_json(error.body), error.status, error.headers, media_type="application/json")


async def unless_gone(request: Any, work: Awaitable[T]) -> T:
    """The result of some work, which is cancelled when the client leaves.  Raises ClientGone then."""
    doing = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        raise ClientGone
    finally:
        for task in (doing, gone):
            if not task.done():
                task.cancel()
        await asyncio.gather(doing, gone, return_exceptions=True)


async def _gone(request: Any) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class EventStream:
    """A response of events.  A late error is an event of its own, and the stream then ends without [DONE]."""

    def __init__(
        self,
        request: Any,
        events: AsyncIterator[bytes],
        close: Callable[[], Awaitable[None]],
        write_seconds: float,
    ):
        self.request, self.events, self.close, self.write_seconds = request, events, close, write_seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the events until they end or the client leaves; then ``close``."""

        async def sent(body: bytes, more: bool = True) -> None:
            message = {"type": "http.response.body", "body": body, "more_body": more}
            try:
                await asyncio.wait_for(send(message), self.write_seconds)
            except (TimeoutError, OSError):
                raise ClientGone from None

        async def send_all() -> None:
            headers = [(name.encode(), value.encode()) for name, value in STREAM.items()]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            try:
                async for one in self.events:
                    await sent(one)
                await sent(DONE)
            except RequestError as error:
                await sent(event(error.body))
            await sent(b"", more=False)

        try:
            await unless_gone(self.request, send_all())
        except ClientGone:
            pass
        finally:
            await self.close()
