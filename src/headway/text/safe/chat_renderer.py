"""Rendering a chat template, in a process with limits (``headway.text.safe.worker``).

A template is a program written by the model's author.  The sandbox keeps it away from Python; a separate process with
little memory, which the parent ends when the time is up, keeps it from taking down the main program.
"""

import datetime
import functools
import json
from collections.abc import Callable
from typing import Any

MAX_OUTPUT = 2**22
"""Characters that a template may put in one string; a request says how many it may write in total."""
MOST_STEPS = 1_000_000
"""Numbers that all calls of ``range`` in a template may return together."""


def renderer() -> Callable[[str], Any]:
    """What compiles a template; the latest ones are kept."""
    return functools.lru_cache(maxsize=8)(_environment().from_string)


def render(compiled: Callable[[str], Any], request: dict[str, Any]) -> dict[str, Any]:
    """{"text", "spans"} or {"error"} for {"template", "messages", "special", "add_generation_prompt", "most"}."""
    spans: list[list[int]] = []
    pieces: list[str] = []
    length = 0
    values = {**request["special"], "messages": request["messages"]}
    values |= {"add_generation_prompt": request["add_generation_prompt"], "tools": None, "documents": None}
    values |= {"range": _Range(), "_written": lambda: length, "_spans": spans}
    for piece in compiled(request["template"]).generate(values):
        length += len(piece)
        if length > request["most"]:
            return {"error": f"writes more than {request['most']} characters for these messages"}
        pieces.append(piece)
    return {"text": "".join(pieces), "spans": spans}


class _Range:
    """``range`` that counts the numbers it returns."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def __call__(self, *bounds: int) -> range:
        numbers = range(*bounds)
        self._left -= len(numbers)
        if self._left < 0:
            raise OverflowError(f"takes more than {MOST_STEPS} steps")
        return numbers


def _environment() -> Any:
    from jinja2 import nodes
    from jinja2.exceptions import SecurityError, TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}`` surrounds what the model itself writes; the positions are recorded."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            names: list[nodes.Expr] = [nodes.Name("_written", "load"), nodes.Name("_spans", "load")]
            return nodes.CallBlock(self.call_method("_note", names), [], [], body).set_lineno(line)

        @staticmethod
        def _note(written: Any, spans: list[list[int]], caller: Any) -> str:
            start, text = written(), str(caller())
            spans.append([start, start + len(text)])
            return text

    class Sandbox(ImmutableSandboxedEnvironment):
        """Refuses repetitions and powers whose result is too large."""

        def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
            raise SecurityError(f"access to {attribute!r} of a {type(obj).__name__} is unsafe")

        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "**" and not (abs(left) < 2**32 and abs(right) <= 64):
                raise SecurityError("makes a number that is too large")
            if operator == "*":
                for many, times in ((left, right), (right, left)):
                    if isinstance(many, str | bytes | list | tuple) and len(many) * times > MAX_OUTPUT:
                        raise SecurityError("makes a string or list that is too long")
                if isinstance(left, int) and isinstance(right, int) and max(abs(left), abs(right)) >= 2**4096:
                    raise SecurityError("makes a number that is too large")
            return super().call_binop(context, operator, left, right)

    def refuse(message: object) -> None:
        raise TemplateError(str(message))

    def to_json(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    environment.from_string("{{ messages | trim }}").render(messages="")  # load everything that the first use loads
    return environment
