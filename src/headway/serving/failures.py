"""Every error of a server in the form that OpenAI's clients read."""

from typing import Any

from headway.errors import InputError
from headway.serving.answers import ClientGone, refusal
from headway.serving.errors import RequestError, failed, invalid


def handle_errors(app: Any) -> None:
    """Let an application of starlette, or of FastAPI, answer every error so."""
    from starlette.exceptions import HTTPException
    from starlette.responses import Response

    async def known(_request: Any, error: Any) -> Any:
        return refusal(error)

    async def of_routes(_request: Any, error: Any) -> Any:
        words = {404: "there is no such route", 405: "this route has no such method"}
        headers = dict(error.headers or {})
        return refusal(
            RequestError(error.status_code, words.get(error.status_code, str(error.detail)), None, None, headers)
        )

    async def of_input(_request: Any, error: Any) -> Any:
        return refusal(invalid(str(error)))

    async def gone(_request: Any, _error: Any) -> Any:
        return Response(status_code=499)

    async def unknown(_request: Any, _error: Any) -> Any:
        return refusal(failed("the server failed"))

    for kind, handler in (
        *((RequestError, known), (HTTPException, of_routes), (InputError, of_input)),
        *((ClientGone, gone), (Exception, unknown)),
    ):
        app.add_exception_handler(kind, handler)
