"""JSON Schema, as much as the routes need: the description that the server publishes is the one that it checks by.

Known are type, enum, minimum, maximum, exclusiveMinimum, minLength, maxLength, pattern, minItems, maxItems, items,
maxProperties, properties, required, additionalProperties, anyOf, and default.
"""

import re
from typing import Any

from headway.errors import shown
from headway.serving.errors import RequestError, invalid

Schema = dict[str, Any]
TYPES: dict[str, tuple[type, ...]] = {
    **{"string": (str,), "integer": (int, float), "number": (int, float), "boolean": (bool,)},
    **{"array": (list,), "object": (dict,), "null": (type(None),)},
}


def checked(value: Any, schema: Schema, where: str = "") -> Any:
    """The value with defaults for what is left out or null, and with whole numbers as int.

    Raises RequestError that names the field.
    """
    if "anyOf" in schema:
        return _any_of(value, schema, where)
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if value is None and "null" in kinds:
        return schema.get("default")
    kind = next((kind for kind in kinds if _is(value, kind)), None)
    if kind is None:
        raise _wrong(where, value, " or ".join(_article(kind) for kind in kinds))
    if "enum" in schema and value not in schema["enum"]:
        raise _wrong(where, value, " or ".join(repr(one) for one in schema["enum"] if one is not None))
    if kind in ("integer", "number"):
        return _number(value, kind, schema, where)
    if kind == "string":
        _check_length(len(value), schema, "Length", "characters", where)
        if "pattern" in schema and not re.search(schema["pattern"], value):
            raise _wrong(where, value, f"a string that matches {schema['pattern']}")
    if kind == "array":
        _check_length(len(value), schema, "Items", "items", where)
        items = schema.get("items")
        return value if items is None else [checked(one, items, f"{where}[{at}]") for at, one in enumerate(value)]
    if kind == "object":
        return _object(value, schema, where)
    return value


def _is(value: Any, kind: str) -> bool:
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    return kind != "integer" or not isinstance(value, float) or value.is_integer()


def _number(value: Any, kind: str, schema: Schema, where: str) -> Any:
    least, most, above = schema.get("minimum"), schema.get("maximum"), schema.get("exclusiveMinimum")
    too_small = (least is not None and value < least) or (above is not None and value <= above)
    if too_small or (most is not None and value > most):
        bounds = [f"above {above}"] if above is not None else [] if least is None else [f"at least {least}"]
        bounds += [] if most is None else [f"at most {most}"]
        raise _wrong(where, value, f"a number {' and '.join(bounds)}")
    return int(value) if kind == "integer" else value


def _object(value: dict[str, Any], schema: Schema, where: str) -> dict[str, Any]:
    _check_length(len(value), schema, "Properties", "entries", where)
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    found: dict[str, Any] = {}
    for key, one in value.items():
        place = f"{where}.{key}" if where else key
        if key in known:
            found[key] = checked(one, known[key], place)
        elif others is False:
            there = ", ".join(known)
            raise invalid(f"there is no field {shown(place)}; there is {there}", shown_key(place), "unknown_parameter")
        else:
            found[key] = one if others is True else checked(one, others, place)
    for key in schema.get("required", ()):
        if key not in value:
            place = f"{where}.{key}" if where else key
            raise invalid(f"{place} is missing", place, "missing_required_parameter")
    for key, one in known.items():
        if key not in found and "default" in one:
            found[key] = one["default"]
    return found


def _any_of(value: Any, schema: Schema, where: str) -> Any:
    """The value by the first alternative that it fits; the error is of the alternative that its type fits best."""
    best: RequestError | None = None
    for one in schema["anyOf"]:
        try:
            return checked(value, one, where)
        except RequestError as error:
            if best is None or _fits_type(value, one):
                best = error
    assert best is not None
    raise best


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


def _article(kind: str) -> str:
    return kind if kind == "null" else f"{'an' if kind[0] in 'aio' else 'a'} {kind}"


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


def optional(schema: Schema, default: Any = None) -> Schema:
    """The same, or null, which means the default, as leaving it out does."""
    kinds, values = schema["type"], schema.get("enum")
    found = {**schema, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"], "default": default}
    return found if values is None else {**found, "enum": [*values, None]}
