"""HTTP on a connection: uvicorn's protocol with a limit on the time for a request's headers and on connections."""

from http import HTTPStatus
from typing import Any

from headway.serving.answers import as_json
from headway.serving.errors import RequestError
from headway.serving.settings import Settings

LATE = RequestError(408, "the headers did not come in time", "request_timeout")
FULL = RequestError(503, "there are too many connections", "server_overloaded", headers={"retry-after": "5"})


def protocol(settings: Settings) -> Any:
    """The class of the connections of a server."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Connection(H11Protocol):
        """A connection whose client must say what it wants within a time."""

        _deadline: Any = None

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


def _raw(error: RequestError) -> bytes:
    """A whole response, for a connection that has no request."""
    body = as_json(error.body)
    about = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in {**about, **error.headers}.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
