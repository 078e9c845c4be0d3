"""The body of a request: read within limits, and only as JSON that means one thing."""

from typing import Any

from headway.errors import InputError
from headway.io.strict_json import BYTES_PER_VALUE, parse_object
from headway.serving.errors import RequestError, invalid
from headway.serving.in_thread import in_thread
from headway.serving.schema import Schema, checked, closed

MAX_DEPTH = 32
VALUES = 1 << 17
"""JSON values of a body: more could not be an honest request, and reading them takes seconds."""
LARGE = 1 << 14
"""Bytes of a body from which it is read outside the event loop."""
READ = "headway.body"
"""Where a request keeps its JSON object, for the second schema that it is checked by."""


async def read_body(request: Any, schema: Schema, *, strict: bool = False) -> dict[str, Any]:
    """The JSON object of a request, checked by a schema.  Raises RequestError.

    ``strict`` refuses fields that the schema does not have, at every depth.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise RequestError(415, "the body must be JSON: send the header content-type: application/json")
    if strict:
        schema = closed(schema)
    content = await request.body()

    def read() -> dict[str, Any]:
        if READ not in request.scope:
            request.scope[READ] = _parsed(content)
        found: dict[str, Any] = checked(request.scope[READ], schema)
        return found

    found: dict[str, Any] = await in_thread(read) if len(content) > LARGE else read()
    return found


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"the body is not UTF-8 at byte {error.start}", code="invalid_json") from None
    try:
        return parse_object(
            text, "the body", advice="send a JSON object", max_depth=MAX_DEPTH, max_bytes=VALUES * BYTES_PER_VALUE
        )
    except InputError as error:
        raise invalid(str(error), code="invalid_json") from None
