"""Pages from templates: plain data in, HTML out.  All that a template prints is escaped and cut."""

import html
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from headway.reports.wording import decimal, short, show

FOLDER = Path(__file__).parent
UNSAFE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LONGEST = 500
"""Maximum characters shown of one value."""

JOINERS = "\u200c\u200d"
"""Invisible characters that scripts and emoji need between others."""


def escape(value: object, longest: int = LONGEST) -> Markup:
    """``value`` as HTML text, at most ``longest`` characters; characters that HTML forbids become U+FFFD.

    What is HTML already, a ``Markup``, is not changed.
    """
    if isinstance(value, Markup):
        return value
    text = UNSAFE.sub("\ufffd", short(show(value), longest).encode("utf-8", "replace").decode("utf-8"))
    return Markup(html.escape(text))


def visible(text: str, longest: int = LONGEST) -> Markup:
    """A text of the data as HTML, cut to a length; control and bidirectional characters are made visible."""
    return escape("".join(_seen(letter) for letter in short(text, longest)), 12 * longest)


def _seen(letter: str) -> str:
    """A character in visible form: a line end as an arrow, an invisible character by its code."""
    if letter == "\n":
        return "↵"
    hidden = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in JOINERS
    return f"[U+{ord(letter):04X}]" if hidden else letter


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"text": escape, "visible": visible, "decimal": decimal, "show": show}
    environment.filters["px"] = "{:.1f}".format
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def render(template: str, **data: Any) -> str:
    """A whole page."""
    return str(_environment().get_template(template).render(data))


@cache
def part(name: str) -> str:
    """A style sheet or a script of this folder."""
    return (FOLDER / name).read_text(encoding="utf-8")
