"""The errors of a server, in the form that OpenAI's clients read."""

from typing import Any

from headway.errors import printable

KINDS = {401: "authentication_error", 403: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
"""The type of an error by its status; others below 500 are ``invalid_request_error``, the rest ``server_error``."""


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
        """{"error": {"message", "type", "param", "code"}}."""
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
