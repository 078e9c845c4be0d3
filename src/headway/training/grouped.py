"""Nested frozen dataclasses with flat names: ``options.data.delimiter`` is ``delimiter``.

A field whose type is a dataclass is a group; no two groups share a field's name.  Files and command lines use the flat
names.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Self


class Grouped:
    """A frozen dataclass of groups and its own fields."""

    def __init__(self, **flat: Any):
        """Set every field by its flat name.  Raises TypeError for an unknown name, or a missing one."""
        whole: Any = type(self)
        for name, kind in groups(whole).items():
            own = {one.name: flat.pop(one.name) for one in fields(kind) if one.name in flat}
            object.__setattr__(self, name, kind(**own))
        for entry in own_fields(whole):
            if entry.name in flat:
                value = flat.pop(entry.name)
            elif entry.default is not MISSING:
                value = entry.default
            elif entry.default_factory is not MISSING:
                value = entry.default_factory()
            else:
                raise TypeError(f"{type(self).__name__}: {entry.name} is missing")
            object.__setattr__(self, entry.name, value)
        if flat:
            raise TypeError(f"{type(self).__name__}: has no {', '.join(flat)}")

    def flat(self) -> dict[str, Any]:
        """Every value by its flat name, copied."""
        whole: Any = type(self)
        return {name: deepcopy(self.value(name)) for name in entries(whole)}

    def value(self, name: str) -> Any:
        """The value of a field by its flat name.  Raises KeyError for an unknown name."""
        whole: Any = type(self)
        group = _places(whole)[name]
        return getattr(self if group is None else getattr(self, group), name)

    def but(self, **changes: Any) -> Self:
        """A copy with some values changed, by flat names."""
        whole: Any = type(self)
        made: Self = whole(**{**{name: self.value(name) for name in entries(whole)}, **changes})
        return made


@cache
def groups(kind: type) -> Mapping[str, type]:
    """The groups of a class, by name."""
    kinds: dict[str, Any] = {one.name: one.type for one in _fields(kind)}
    return MappingProxyType({name: one for name, one in kinds.items() if isinstance(one, type) and is_dataclass(one)})


@cache
def own_fields(kind: type) -> tuple[Field[Any], ...]:
    """Its fields that are no groups."""
    return tuple(one for one in _fields(kind) if not is_dataclass(one.type))


@cache
def entries(kind: type) -> Mapping[str, Field[Any]]:
    """Every field by its flat name: its own, then those of its groups."""
    every = [*own_fields(kind), *(one for group in groups(kind).values() for one in _fields(group))]
    return MappingProxyType({one.name: one for one in every})


@cache
def _places(kind: type) -> Mapping[str, str | None]:
    """The group of each field, or None, by flat name."""
    own: dict[str, str | None] = {one.name: None for one in own_fields(kind)}
    return own | {one.name: name for name, group in groups(kind).items() for one in _fields(group)}


def _fields(kind: Any) -> tuple[Field[Any], ...]:
    return fields(kind)
