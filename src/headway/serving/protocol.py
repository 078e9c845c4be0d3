"""HTTP on a connection: uvicorn's protocol with a limit on the time for a request's headers and on connections."""

import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from headway.serving.responses import RequestError, as_json
from headway.serving.settings import Settings

LOOK_EVERY = 10
"""Calls from one look at the connections to the next: a second."""
WRONG = RequestError(400, "this is not a request of HTTP/1.1")
LATE = RequestError(408, "the headers did not come in time", "request_timeout")
FULL = RequestError(503, "there are too many connections", "server_overloaded", headers={"retry-after": "5"})


def protocol(settings: Settings) -> Any:
    """The class of the connections of a server."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Connection(H11Protocol):
        """A connection whose client must say what it wants within a time."""

        _deadline: Any = None
        _waits_since = 0.0
        """since when what is to be written has not become less"""
        _to_write = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > settings.connections:
                transport.write(_raw(FULL))
                transport.close()
                return
            self._wait_for_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._between_requests() and self._deadline is None:
                self._wait_for_headers()
            super().data_received(data)
            if not self._between_requests():
                self._stop_waiting()

        def send_400_response(self, msg: str) -> None:
            if self._between_requests() or not self.cycle.response_started:
                self.transport.write(_raw(WRONG))
            self.transport.close()

        def end_if_stalled(self, now: float) -> None:
            """End the connection if its client reads nothing for ``write_seconds``, though there is something."""
            to_write = self.transport.get_write_buffer_size()
            if not to_write or to_write < self._to_write or not self._to_write:
                self._waits_since = now
            self._to_write = to_write
            if to_write and now - self._waits_since >= settings.write_seconds:
                self.transport.abort()

        def _between_requests(self) -> bool:
            cycle: Any = self.cycle
            return cycle is None or cycle.response_complete

        def _wait_for_headers(self) -> None:
            self._deadline = self.loop.call_later(settings.header_seconds, self._too_late)

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_late(self) -> None:
            self._deadline = None
            if self._between_requests() and not self.transport.is_closing():
                self.transport.write(_raw(LATE))
                self.transport.close()

    return Connection


def server_config(app: Any, settings: Settings, **more: Any) -> Any:
    """How uvicorn serves an application with such connections, and without a log of its own."""
    import uvicorn

    more |= dict.fromkeys(("access_log", "server_header", "proxy_headers"), False)
    more |= {"http": protocol(settings), "ws": "none", "log_config": None, "timeout_keep_alive": 5}
    return uvicorn.Config(app, h11_max_incomplete_event_size=settings.header_bytes, **more)


def end_stalled(connections: Iterable[Any], counter: int) -> None:
    """End the connections whose clients read nothing: called ten times a second with the number of the call."""
    if counter % LOOK_EVERY == 0:
        now = time.monotonic()
        for one in list(connections):
            one.end_if_stalled(now)


def _raw(error: RequestError) -> bytes:
    """A whole response, for a connection that has no request."""
    body = as_json(error.body)
    about = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in {**about, **error.headers}.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
