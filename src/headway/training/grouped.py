"""Nested frozen dataclasses with flat names: ``options.data.delimiter`` is ``delimiter``.

A field whose type is a dataclass is a group; no two groups share a field's name.  Files and command lines use the flat
names.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Self, cast


class Grouped:
    """A frozen dataclass of groups and its own fields."""

    def __init__(self, **flat: Any):
        """Set every field by its flat name.  Raises TypeError for an unknown name, or a missing one."""
        whole: Any = type(self)
        for name, kind in groups(whole).items():
            own = {one.name: flat.pop(one.name) for one in fields(kind) if one.name in flat}
            object.__setattr__(self, name, kind(**own))
        for name, entry in entries(whole).items():
            if _group_of(whole)[name] is not None:
                continue
            if name in flat:
                value = flat.pop(name)
            elif entry.default is not MISSING:
                value = entry.default
            elif entry.default_factory is not MISSING:
                value = entry.default_factory()
            else:
                raise TypeError(f"{type(self).__name__}: {name} is missing")
            object.__setattr__(self, name, value)
        if flat:
            raise TypeError(f"{type(self).__name__}: has no {', '.join(flat)}")

    def flat(self) -> dict[str, Any]:
        """Every value by its flat name, copied."""
        whole: Any = type(self)
        return {name: deepcopy(self.value(name)) for name in entries(whole)}

    def value(self, name: str) -> Any:
        """The value of a field by its flat name.  Raises KeyError for an unknown name."""
        whole: Any = type(self)
        group = _group_of(whole)[name]
        return getattr(self if group is None else getattr(self, group), name)

    def but(self, **changes: Any) -> Self:
        """A copy with some values changed, by flat names."""
        whole: Any = type(self)
        return cast(Self, whole(**{**{name: self.value(name) for name in entries(whole)}, **changes}))


@cache
def groups(kind: Any) -> Mapping[str, Any]:
    """The groups of a class, by name."""
    return MappingProxyType({one.name: one.type for one in fields(kind) if is_dataclass(one.type)})


@cache
def entries(kind: Any) -> Mapping[str, Field[Any]]:
    """Every field by its flat name: its own, then those of its groups."""
    own = [one for one in fields(kind) if one.name not in groups(kind)]
    every = [*own, *(one for group in groups(kind).values() for one in fields(group))]
    return MappingProxyType({one.name: one for one in every})


@cache
def _group_of(kind: Any) -> Mapping[str, str | None]:
    """The group of each field, or None, by flat name."""
    grouped = {one.name: name for name, group in groups(kind).items() for one in fields(group)}
    return {name: grouped.get(name) for name in entries(kind)}
