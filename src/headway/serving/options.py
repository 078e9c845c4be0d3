"""The schema of a typed route, made from the description of a task's command: its inputs and its options."""

from typing import Any

from headway.serving.schema import Schema, optional
from headway.tasks.command import Command, Option

MOST_INPUTS = 256
LONGEST_INPUT = 1 << 16
"""Characters."""
MOST_WORDS = 1 << 14
"""Words of a text that are given one by one."""
LONGEST_OPTION = 1000
LARGEST = 10**9
KINDS: dict[type, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": -LARGEST, "maximum": LARGEST},
    float: {"type": "number", "minimum": -LARGEST, "maximum": LARGEST},
    str: {"type": "string", "maxLength": LONGEST_OPTION},
}


def served_options(command: type[Command]) -> list[Option]:
    """The options of a command that say something to a server: not those of a conversation in a terminal."""
    return [one for one in command.options if not command.interactive or command.interactive not in _of(one)]


def _of(option: Option) -> tuple[str, str | None]:
    return option.name, option.goes_with


def inputs_schema(command: type[Command], most: int) -> Schema:
    """The inputs, ``most`` at most: texts, or lists of their words, or pictures as base64."""
    item: Schema = {"type": "string", "maxLength": LONGEST_INPUT}
    if command.spec.reads == "picture":
        item = {"type": "string", "contentEncoding": "base64", "minLength": 1}
    if command.takes_words:
        item = {"anyOf": [item, {"type": "array", "items": item, "maxItems": MOST_WORDS}]}
    return {"type": "array", "items": item, "minItems": 1, "maxItems": most}


def request_schema(command: type[Command], most: int) -> Schema:
    """The body of a request with ``most`` inputs at most."""
    properties: dict[str, Any] = {
        "model": optional({"type": "string", "description": "The name of the model; not needed where there is one."}),
        "inputs": inputs_schema(command, most),
    }
    for option in served_options(command):
        properties[option.name] = _option(option)
    return {"type": "object", "properties": properties, "required": ["inputs"], "additionalProperties": False}


def _option(option: Option) -> Schema:
    kind: Schema = dict(KINDS.get(option.type, KINDS[str]))
    for name, limit in (("minimum", option.least), ("maximum", option.most)):
        if limit is not None and option.type in (int, float):
            kind[name] = limit
    if option.several:
        item = {**kind, "minLength": 1, "maxLength": 64}
        kind = {"type": "array", "items": item, "maxItems": 4}
    default = False if option.type is bool else [] if option.several else option.default
    return {**optional(kind, default), "description": option.help}


def given_options(command: type[Command], body: dict[str, Any]) -> dict[str, Any]:
    """Every option of the command by name: what the request says, or else the default."""
    found: dict[str, Any] = {}
    for option in command.options:
        default = False if option.type is bool else () if option.several else option.default
        value = body.get(option.name, default)
        found[option.name] = tuple(value) if isinstance(value, list) else value
    return found
