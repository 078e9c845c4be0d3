"""The body of a request: JSON that means one thing, read within limits and checked by the schema that is published."""

from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from headway.errors import InputError, shown
from headway.io.strict_json import BYTES_PER_VALUE, parse_object
from headway.serving.responses import RequestError, in_thread, invalid
from headway.tasks.command import Command, Option

Schema = dict[str, Any]
TYPES: dict[str, tuple[type, ...]] = {
    **{"string": (str,), "integer": (int, float), "number": (int, float), "boolean": (bool,)},
    **{"array": (list,), "object": (dict,), "null": (type(None),)},
}
NAMED = {kind: kind if kind == "null" else f"{'an' if kind[0] in 'aio' else 'a'} {kind}" for kind in TYPES}
"""The types in messages."""
COUNTED = {"string": ("Length", "characters"), "array": ("Items", "items"), "object": ("Properties", "entries")}
"""What JSON Schema and messages call the size of a value."""
MAX_DEPTH = 32
VALUES = 1 << 17
"""JSON values of a body: more could not be an honest request, and reading them takes seconds."""
LARGE = 1 << 14
"""Bytes of a body from which it is read outside the event loop."""
READ = "headway.body"
"""Where a request keeps its JSON object, for the second schema that it is checked by."""
CLOSED, OPEN = {"additionalProperties": False}, {"additionalProperties": True}
"""Of an object: whether it may have other fields."""
STRING, INTEGER, NUMBER, BOOLEAN = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))


def string(least: int | None = None, most: int | None = None) -> Schema:
    """Text of so many characters."""
    return STRING | _bounds("Length", least, most)


def integer(least: float, most: float) -> Schema:
    """A whole number within bounds."""
    return {"type": "integer", "minimum": least, "maximum": most}


def number(least: float, most: float) -> Schema:
    """A number within bounds."""
    return {"type": "number", "minimum": least, "maximum": most}


def array(items: Schema, least: int | None = None, most: int | None = None) -> Schema:
    """A list of so many values that all fit a schema."""
    return {"type": "array", "items": items} | _bounds("Items", least, most)


def _bounds(of: str, least: int | None, most: int | None) -> Schema:
    return {f"{end}{of}": limit for end, limit in (("min", least), ("max", most)) if limit is not None}


def one_of(*values: str) -> Schema:
    """One of some words."""
    return {"type": "string", "enum": [*values]}


def record(*required: str, **properties: Schema) -> Schema:
    """An object; without names of fields that are ``required``, all are."""
    return {"type": "object", "properties": properties, "required": [*(required or properties)]}


def optional(schema: Schema, default: Any = None) -> Schema:
    """The same, or null, which means the default, as leaving it out does."""
    kinds, values = schema["type"], schema.get("enum")
    found = {**schema, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"], "default": default}
    return found if values is None else {**found, "enum": [*values, None]}


def closed(schema: Schema) -> Schema:
    """The same, without any field that it does not name, at every depth."""
    found = dict(schema)
    if "anyOf" in schema:
        found["anyOf"] = [closed(one) for one in schema["anyOf"]]
    if "items" in schema:
        found["items"] = closed(schema["items"])
    if "properties" in schema:
        found["properties"] = {name: closed(one) for name, one in schema["properties"].items()}
        found["additionalProperties"] = False
    return found


MOST_INPUTS = 256
LONGEST_INPUT = 1 << 16
"""Characters."""
MOST_WORDS = 1 << 14
"""Words of a text that are given one by one."""
LONGEST_OPTION = 1000
LARGEST = 10**9
KINDS: dict[type, Schema] = {
    bool: BOOLEAN,
    int: integer(-LARGEST, LARGEST),
    float: number(-LARGEST, LARGEST),
    str: string(most=LONGEST_OPTION),
}


def request_schema(command: type[Command], most: int) -> Schema:
    """The body of a request with ``most`` inputs at most: texts, or lists of their words, or pictures as base64."""
    item = string(most=LONGEST_INPUT)
    if command.spec.reads == "picture":
        item = {**string(1), "contentEncoding": "base64"}
    if command.takes_words:
        item = {"anyOf": [item, array(item, most=MOST_WORDS)]}
    model = {**STRING, "description": "The name of the model; not needed where there is one."}
    fields = {"model": optional(model), "inputs": array(item, 1, most)}
    for one in command.options:
        if not command.interactive or command.interactive not in (one.name, one.goes_with):  # no conversations
            fields[one.name] = _option(one)
    return {"type": "object", "properties": fields, "required": ["inputs"], "additionalProperties": False}


def answer_schema(kind: Any) -> Schema:
    """The schema of a type of answer, as a command names it; {} fits anything."""
    plain = {str: STRING, int: INTEGER, float: NUMBER, NoneType: {"type": "null"}}
    origin, parts = get_origin(kind), get_args(kind)
    if kind in plain:
        return plain[kind]
    if is_typeddict(kind):
        fields = {name: answer_schema(part) for name, part in get_type_hints(kind).items()}
        return record(*sorted(kind.__required_keys__), **fields)
    if origin is UnionType:
        return {"anyOf": [answer_schema(part) for part in parts]}
    if origin is list:
        return array(answer_schema(parts[0]))
    return {"type": "object", "additionalProperties": answer_schema(parts[1])} if origin is dict else {}


def _option(option: Option) -> Schema:
    kind: Schema = dict(KINDS.get(option.type, KINDS[str]))
    for name, limit in (("minimum", option.least), ("maximum", option.most)):
        if limit is not None and option.type in (int, float):
            kind[name] = limit
    if option.several:
        kind = array({**kind, **string(1, 64)}, most=4)
    return {**optional(kind, option.usual), "description": option.help}


def given_options(command: type[Command], body: dict[str, Any]) -> dict[str, Any]:
    """Every option of the command by name: what the request says, or else the default."""
    options = {option.name: body.get(option.name, option.usual) for option in command.options}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


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
        body: dict[str, Any] = checked(request.scope[READ], schema)
        return body

    return await in_thread(read) if len(content) > LARGE else read()


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


def checked(value: Any, schema: Schema, where: str = "") -> Any:
    """The value with defaults for what is left out or null, and with whole numbers as int.

    Of JSON Schema it knows what the functions above write.  Raises RequestError that names the field.
    """
    if "anyOf" in schema:  # of which at most one has the type of a value
        meant = [one for one in schema["anyOf"] if _fits_type(value, one)]
        schema = (meant or schema["anyOf"][:1])[-1]
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if value is None and "null" in kinds:
        return schema.get("default")
    kind = next((kind for kind in kinds if _is(value, kind)), None)
    if kind is None:
        raise _wrong(where, value, " or ".join(NAMED[kind] for kind in kinds))
    if "enum" in schema and value not in schema["enum"]:
        raise _wrong(where, value, " or ".join(repr(one) for one in schema["enum"] if one is not None))
    if kind in ("integer", "number"):
        return _number(value, kind, schema, where)
    if kind in COUNTED:
        _check_length(len(value), schema, *COUNTED[kind], where)
    if kind == "array" and "items" in schema:
        return [checked(one, schema["items"], f"{where}[{at}]") for at, one in enumerate(value)]
    return _object(value, schema, where) if kind == "object" else value


def _is(value: Any, kind: str) -> bool:
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    return kind != "integer" or not isinstance(value, float) or value.is_integer()


def _number(value: Any, kind: str, schema: Schema, where: str) -> Any:
    least, most = schema.get("minimum"), schema.get("maximum")
    if (least is not None and value < least) or (most is not None and value > most):
        bounds = [f"{which} {end}" for which, end in (("at least", least), ("at most", most)) if end is not None]
        raise _wrong(where, value, f"a number {' and '.join(bounds)}")
    return int(value) if kind == "integer" else value


def _object(value: dict[str, Any], schema: Schema, where: str) -> dict[str, Any]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    found: dict[str, Any] = {}
    prefix = f"{where}." if where else ""
    for key, one in value.items():
        place = prefix + key
        if key in known:
            found[key] = checked(one, known[key], place)
        elif others is False:
            there = ", ".join(known)
            raise invalid(f"there is no field {shown(place)}; there is {there}", shown_key(place), "unknown_parameter")
        else:
            found[key] = one if others is True else checked(one, others, place)
    for key in schema.get("required", ()):
        if key not in value:
            raise invalid(f"{prefix}{key} is missing", prefix + key, "missing_required_parameter")
    return found | {key: one["default"] for key, one in known.items() if key not in found and "default" in one}


def _fits_type(value: Any, schema: Schema) -> bool:
    kinds = schema.get("type", ())
    fits = any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds))
    if not fits or not isinstance(value, list) or not value or "items" not in schema:
        return fits
    return _fits_type(value[0], schema["items"])


def _check_length(length: int, schema: Schema, of: str, what: str, where: str) -> None:
    least, most = schema.get(f"min{of}", 0), schema.get(f"max{of}")
    if length < least:
        words = "is empty" if not length else f"has {length:,} {what}; it must have at least {least:,}"
        raise invalid(f"{where or 'the body'} {words}", where or None)
    if most is not None and length > most:
        raise invalid(f"{where or 'the body'} has {length:,} {what}; it may have at most {most:,}", where or None)


def shown_key(place: str) -> str:
    """The name of a field as an error repeats it: of one that a client made up, at most 80 characters."""
    return place if len(place) <= 80 else place[:77] + "..."


def _wrong(where: str, value: Any, expected: str) -> RequestError:
    place = shown_key(where) or "the body"
    return invalid(f"{place} is {shown(value)}; it must be {expected}", shown_key(where) or None)
