"""What every application of ours has, with models or to show a run: a gate, JSON of errors, files of the playground."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from headway.errors import InputError
from headway.serving.gate import ROUTE, Gate
from headway.serving.responses import ClientGone, RequestError, failed, invalid, refusal
from headway.serving.state import State

Handler = Callable[[Any, Any], Awaitable[Any]]
"""Answers a request, given what all routes share."""
GET = ("GET",)
KINDS = {
    **{"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"},
    "svg": "image/svg+xml",
}
EXPLORER = ("explorer_maps.js", "explorer.js", "explorer.css")
"""What draws attention maps: the same files that the page of ``headway attention`` holds."""


def add_routes(app: Any, state: State, routes: Iterable[tuple[str, Handler, Sequence[str]]]) -> None:
    """Give an application of starlette, or of FastAPI, the gate and these routes: (path, handler, methods) each."""
    from starlette.exceptions import HTTPException

    async def front(_request: Any, _state: State) -> Any:
        return page("index.html")

    async def file(request: Any, _state: State) -> Any:
        return page(request.path_params["name"])

    for kind in (RequestError, HTTPException, InputError, ClientGone, Exception):
        app.add_exception_handler(kind, _shown)
    app.add_middleware(Gate, state=state)
    app.router.redirect_slashes = False
    for path, handler, methods in (("/", front, GET), ("/playground/{name}", file, GET), *routes):
        app.router.add_route(path, _named(path, handler, state), methods=list(methods))


def _named(path: str, handler: Handler, state: State) -> Callable[[Any], Awaitable[Any]]:
    """A handler whose request keeps the route as the server writes it."""

    async def named(request: Any) -> Any:
        request.scope.setdefault(ROUTE, path)
        return await handler(request, state)

    return named


async def _shown(_request: Any, error: Exception) -> Any:
    """The response to an error, in the form that OpenAI's clients read."""
    from starlette.exceptions import HTTPException
    from starlette.responses import Response

    if isinstance(error, ClientGone):
        return Response(status_code=499)
    if isinstance(error, HTTPException):
        words = {404: "there is no such route", 405: "this route has no such method"}
        message = words.get(error.status_code, str(error.detail))
        return refusal(RequestError(error.status_code, message, headers=dict(error.headers or {})))
    if isinstance(error, InputError):
        return refusal(invalid(str(error)))
    return refusal(error if isinstance(error, RequestError) else failed("the server failed"))


@cache
def playground() -> dict[str, tuple[bytes, str]]:
    """Every file by name, with its type."""
    found = {}
    explorer = [files("headway.reports").joinpath(name) for name in EXPLORER]
    for one in (*files("headway.serving").joinpath("playground").iterdir(), *explorer):
        kind = KINDS.get(one.name.rsplit(".", 1)[-1])
        if one.is_file() and kind is not None:
            found[one.name] = (one.read_bytes(), kind)
    return found


def page(name: str) -> Any:
    """The response with a file.  Raises RequestError where there is none of that name."""
    from starlette.responses import Response

    if name not in playground():
        raise RequestError(404, "there is no such file")
    content, kind = playground()[name]
    return Response(content, headers={"content-type": kind, "cache-control": "no-cache"})
