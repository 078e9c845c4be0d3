"""What an option is: a field with its help, its allowed values, and the options it conflicts with."""

import math
from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, field
from typing import Any

from headway.errors import InputError, shown
from headway.io.quantities import parse_seconds
from headway.io.regular_file import check_name

DEFAULT_TIME = "5m"
"""The time of a run that is given neither a time nor steps."""


@dataclass(frozen=True)
class Between:
    """Numbers from ``least`` to ``most``; ``above`` excludes the least, ``below`` excludes the most."""

    least: float
    most: float
    above: bool = False
    below: bool = False

    def allows(self, value: float) -> bool:
        """Whether a number is in the interval; NaN is not."""
        low = self.least < value if self.above else self.least <= value
        return low and (value < self.most if self.below else value <= self.most)

    def __str__(self) -> str:
        if self.below:
            return f"from {self.least:g} to below {self.most:g}"
        if self.above:
            return f"above {self.least:g} and at most {self.most:g}"
        return f"{self.least:,} or more, and at most {self.most:,}"


SHARE = Between(0, 1, below=True)


def option(
    text: str,
    choices: tuple[str, ...] = (),
    *,
    default: Any = None,
    most: int | None = None,
    allowed: Between | None = None,
    duration: bool = False,
    common: bool = False,
    change: str = "no",
    loop: bool = False,
    base: str = "",
    excludes: Mapping[str, str] | None = None,
    several: bool = False,
) -> Any:
    """A field of a group of options.

    ``text`` is its help, ``choices`` or ``allowed`` its values, or it is a number from 1 to ``most``, which is far
    above any useful value; a ``duration`` is a text such as 5m, or a number of seconds.  ``common``: the short help
    shows it.  ``change``: "free" where a resumed run may change it, "allowed" where that needs --allow-changes, else
    "no".  ``loop``: it belongs to training step by step, which a linear classifier on a model's vectors does not have.
    ``base``: whether --from is "needed" or "excluded".  ``excludes``: names of options that conflict with it, each with
    the reason.  ``several``: it can be given several times, or a list from Python; its value is all of them, with
    commas between them.
    """
    told: dict[str, Any] = {"help": text, "choices": choices, "duration": duration, "common": common, "change": change}
    told |= {"allowed": allowed if most is None else Between(1, most), "loop": loop, "base": base}
    return field(default=default, metadata={**told, "excludes": excludes or {}, "several": several})


def flag(name: str) -> str:
    """A field's option: label_column -> label-column, and from_model -> from, which is a Python keyword."""
    return "from" if name == "from_model" else name.replace("_", "-")


KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a text"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
}


def kind_of(entry: Field[Any]) -> tuple[str, bool]:
    """The kind of an option (str, int, float or bool), and whether it may be None."""
    written = entry.type.__name__ if isinstance(entry.type, type) else str(entry.type)
    kind, _, optional = written.partition(" | ")
    return kind, bool(optional)


def check_value(entry: Field[Any], value: Any) -> None:
    """Raise InputError when a value has the wrong type for its option, or is not allowed."""
    kind, optional = kind_of(entry)
    if value is None and optional:
        return
    accepted, words = KINDS[kind]
    fits: bool = isinstance(value, accepted)
    if not fits or (isinstance(value, bool) and kind != "bool"):
        raise InputError(f"--{flag(entry.name)} is {value!r}; it must be {words}.")
    choices, allowed = entry.metadata["choices"], entry.metadata["allowed"]
    if choices and value not in choices:
        raise InputError(f"--{flag(entry.name)} is {value!r}; it can be {', '.join(choices)}.")
    if entry.metadata["duration"]:
        parse_seconds(value, f"--{flag(entry.name)}")
    if allowed is not None and not (allowed.allows(value) and not math.isnan(value)):
        raise InputError(f"--{flag(entry.name)} is {shown(value)}; it must be {allowed}.")
    if entry.name == "from_model":
        check_name(value, "--from")


def check_together(entries: Mapping[str, Field[Any]], values: Mapping[str, Any], given: Collection[str]) -> None:
    """Raise InputError for ``given`` options that conflict, or that need another option."""
    for name in given:
        for other, why in entries[name].metadata["excludes"].items():
            if other in given:
                raise InputError(f"--{flag(name)} and --{flag(other)} were both given; {why}.")
    based = values["from_model"] is not None
    for name in given:
        base = entries[name].metadata["base"]
        if base == "needed" and not based:
            raise InputError(f"--{flag(name)} is for fine-tuning; name the model with --from.")
        if base == "excluded" and based:
            raise InputError(f"--{flag(name)} cannot be chosen with --from: the model has its own.")
    way = "contrastive" if values["contrastive"] else "frozen"
    for name in given if values[way] else ():
        if entries[name].metadata["loop"]:
            raise InputError(f"--{flag(name)} is for training the whole model, which --{way} does not; choose one.")
