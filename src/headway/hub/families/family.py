"""What a family is."""

from abc import ABC, abstractmethod
from typing import Any

from torch import nn

from headway.hub.table import Row
from headway.models.config import TransformerConfig

Json = dict[str, Any]


class Family(ABC):
    """A published model family: its ``config.json`` and weight names, to and from ours."""

    model_type: str
    """the name in config.json"""

    @abstractmethod
    def config(self, theirs: Json) -> TransformerConfig:
        """Our configuration for their ``config.json``.  Raises ValueError for what we cannot represent."""

    @abstractmethod
    def build(self, theirs: Json) -> nn.Module:
        """A model of that configuration and of the architecture it names, weights not yet read."""

    @abstractmethod
    def describe(self, model: nn.Module) -> Json | None:
        """Their ``config.json`` for a model of ours, or None when it is not of this family.

        Raises ValueError for a part, such as a head, that the family's configuration has no word for.
        """

    @abstractmethod
    def rows(self, theirs: Json) -> list[Row]:
        """The name table for their configuration."""


def pick(theirs: Json, name: str, kind: type, default: Any = None) -> Any:
    """A value of ``config.json``, checked for its type.  Raises ValueError naming the key."""
    value = theirs.get(name, default)
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (kind is not bool and isinstance(value, bool)):
        raise ValueError(f"{name} is {value!r}, expected {kind.__name__}")
    return value


def choice(theirs: Json, name: str, known: dict[str, str], default: str) -> str:
    """Our word for theirs, by a table.  Raises ValueError naming the key when the table lacks it."""
    value = pick(theirs, name, str, default)
    if value not in known:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(known)}")
    return known[value]


def architecture(theirs: Json, known: tuple[str, ...], default: str) -> str:
    """The class that ``config.json`` names; one that is not known raises ValueError."""
    names = theirs.get("architectures") or [default]
    if names[0] not in known:
        raise ValueError(f"architecture {names[0]!r} is not one of {', '.join(known)}")
    return names[0]


def rope_base(theirs: Json, parameters: Json | None, default: float) -> float:
    """The rotary base of ``rope_parameters`` (or of the older ``rope_theta``); other kinds of rope raise ValueError."""
    parameters = parameters or {}
    kind = parameters.get("rope_type", "default")
    if kind != "default":
        raise ValueError(f"rope_type {kind!r} is not supported, only 'default'")
    return float(parameters.get("rope_theta") or theirs.get("rope_theta") or default)
