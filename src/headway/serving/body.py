"""The body of a request: read within limits, and only as JSON that means one thing."""

from typing import Any

from headway.errors import InputError
from headway.io.strict_json import parse_object
from headway.serving.errors import RequestError, invalid
from headway.serving.schema import Schema, checked

MAX_DEPTH = 32


async def read_body(request: Any, schema: Schema, *, strict: bool = False) -> dict[str, Any]:
    """The JSON object of a request, checked by a schema.  Raises RequestError.

    ``strict`` refuses fields that the schema does not have.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise RequestError(415, "the body must be JSON: send the header content-type: application/json")
    content = await request.body()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"the body is not UTF-8 at byte {error.start}", code="invalid_json") from None
    try:
        value = parse_object(text, "the body", advice="send a JSON object", max_depth=MAX_DEPTH)
    except InputError as error:
        raise invalid(str(error), code="invalid_json") from None
    if strict:
        schema = {**schema, "additionalProperties": False}
    found: dict[str, Any] = checked(value, schema)
    return found
