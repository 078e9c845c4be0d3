"""Values as words: numbers, names and lists."""

import json
import re
from typing import Any

from headway.io import quantities


def show(value: object) -> str:
    """``value`` as a person would write it."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return quantities.figure(value, 5)
    if isinstance(value, list | tuple):
        return ", ".join(show(part) for part in value)
    if isinstance(value, dict):
        return ", ".join(f"{words(key)} {show(part)}" for key, part in value.items())
    return json.dumps(value, default=str)


def words(key: object) -> str:
    """A key of a JSON file as words: ``learning_rate`` becomes ``learning rate``."""
    return str(key).replace("_", " ")


def number(value: Any) -> float | None:
    """``value`` as a float if it is a number a page can show and add up, not NaN and below 1e300, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def mapping(value: Any) -> dict[str, Any]:
    """``value`` if it is a dict, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """``value`` if it is a list; an empty list for None; otherwise a list that holds only it."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def decimal(value: Any, places: int = 3) -> str:
    """A metric with ``places`` decimals, fewer from 100 on; a dash where there is no finite number."""
    finite = number(value)
    if finite is None:
        return "–"
    if abs(finite) >= 100:
        return quantities.figure(finite, 5 if abs(finite) >= 1000 else 4)
    return f"{finite:.{places}f}"


def count(value: Any) -> str:
    """A count in short form: 878, 40,960, 1.79 M, 3.2 B."""
    finite = number(value)
    return "–" if finite is None else quantities.count(finite)


def short_name(name: object, longest: int = 32) -> str:
    """A baseline's name without its details: "linear model on word n-grams" becomes "linear model"."""
    text = re.split(r" on | over | with |[(,:;]", show(name), maxsplit=1)[0].strip() or show(name)
    text = text.removesuffix(" baseline")
    return short(text, longest)


def short(text: str, longest: int) -> str:
    """A text of at most ``longest`` characters; an ellipsis marks the cut."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
