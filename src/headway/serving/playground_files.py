"""The files of the playground, read once from the package and kept in memory."""

from functools import cache
from importlib.resources import files
from typing import Any

from headway.serving.errors import RequestError

KINDS = {
    **{"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"},
    **{"svg": "image/svg+xml", "png": "image/png", "json": "application/json", "woff2": "font/woff2"},
}
FRONT = "index.html"
EXPLORER = ("explorer_maps.js", "explorer.js", "explorer.css")
"""What draws attention maps: the same files that the page of ``headway attention`` holds."""


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
