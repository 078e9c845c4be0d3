"""What comes back: JSON, an error, a stream of events; and what happens when the client leaves before."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from headway.errors import InputError, printable

T = TypeVar("T")
KINDS = {401: "authentication_error", 403: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
"""The type of an error by its status; others below 500 are ``invalid_request_error``, the rest ``server_error``."""
STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
DONE = b"data: [DONE]\n\n"
PING = b": waiting\n\n"
READERS = ThreadPoolExecutor(4, "headway-reader")
"""What reads requests has threads of its own, so that a crowd of long ones does not hold up the small questions."""


class RequestError(Exception):
    """An answer that is no success: a status, a message, a code for programs, and the field that is wrong."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, printable(message), code, param
        self.headers = headers or {}

    @property
    def body(self) -> dict[str, Any]:
        """{"error": {"message", "type", "param", "code"}}, as OpenAI's clients read it."""
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> RequestError:
    """The client's request cannot be understood or fulfilled."""
    return RequestError(400, message, code, param)


def busy(message: str, retry_after: int = 1) -> RequestError:
    """Too much is waiting already; trying again makes sense after so many seconds."""
    return RequestError(429, message, "server_overloaded", headers={"retry-after": str(retry_after)})


def unavailable(message: str) -> RequestError:
    """Not now, but soon."""
    return RequestError(503, message, "server_unavailable", headers={"retry-after": "5"})


def failed(message: str = "the model failed to compute this answer") -> RequestError:
    """A fault of the server's own, which the same request would meet again."""
    return RequestError(500, message, "internal_error", headers={"x-should-retry": "false"})


def too_late(message: str) -> RequestError:
    """The answer took too long."""
    return RequestError(504, message, "request_timeout", headers={"x-should-retry": "false"})


class ClientGone(Exception):
    """The client has closed the connection."""


async def in_thread(function: Callable[..., T], *given: Any) -> T:
    """Call what takes a while outside the event loop; InputError becomes a RequestError."""
    try:
        return await asyncio.get_running_loop().run_in_executor(READERS, function, *given)
    except InputError as error:
        raise invalid(str(error)) from None


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


def event_stream(
    request: Any, events: AsyncIterator[bytes], close: Callable[[], Awaitable[None]], write_seconds: float
) -> Any:
    """The response of events until they end or the client leaves; then ``close``.

    A late error is an event of its own, and the stream then ends without [DONE].
    """

    async def respond(_scope: Any, _receive: Any, send: Any) -> None:
        async def sent(body: bytes, more: bool = True) -> None:
            message = {"type": "http.response.body", "body": body, "more_body": more}
            try:
                await asyncio.wait_for(send(message), write_seconds)
            except (TimeoutError, OSError):
                raise ClientGone from None

        async def send_all() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": STREAM})
            try:
                async for one in events:
                    await sent(one)
                await sent(DONE)
            except RequestError as error:
                await sent(event(error.body))
            await sent(b"", more=False)

        try:
            with suppress(ClientGone):
                await unless_gone(request, send_all())
        finally:
            await close()

    return respond
