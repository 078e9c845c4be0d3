"""The schema of a typed route, made from the description of a task's command: its inputs and its options."""

from typing import Any

from headway.serving.body import BOOLEAN, STRING, Schema, array, integer, number, optional, string
from headway.tasks.command import Command, Option

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


def _inputs(command: type[Command], most: int) -> Schema:
    """The inputs, ``most`` at most: texts, or lists of their words, or pictures as base64."""
    item = string(most=LONGEST_INPUT)
    if command.spec.reads == "picture":
        item = {**string(1), "contentEncoding": "base64"}
    if command.takes_words:
        item = {"anyOf": [item, array(item, most=MOST_WORDS)]}
    return array(item, 1, most)


def request_schema(command: type[Command], most: int) -> Schema:
    """The body of a request with ``most`` inputs at most."""
    model = {**STRING, "description": "The name of the model; not needed where there is one."}
    fields = {"model": optional(model), "inputs": _inputs(command, most)}
    for one in command.options:
        if not command.interactive or command.interactive not in (one.name, one.goes_with):  # no conversations
            fields[one.name] = _option(one)
    return {"type": "object", "properties": fields, "required": ["inputs"], "additionalProperties": False}


def _option(option: Option) -> Schema:
    kind: Schema = dict(KINDS.get(option.type, KINDS[str]))
    for name, limit in (("minimum", option.least), ("maximum", option.most)):
        if limit is not None and option.type in (int, float):
            kind[name] = limit
    if option.several:
        kind = array({**kind, **string(1, 64)}, most=4)
    return {**optional(kind, _default(option)), "description": option.help}


def _default(option: Option) -> Any:
    return False if option.type is bool else [] if option.several else option.default


def given_options(command: type[Command], body: dict[str, Any]) -> dict[str, Any]:
    """Every option of the command by name: what the request says, or else the default."""
    found = {option.name: body.get(option.name, _default(option)) for option in command.options}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
