"""Tasks of other packages, found by their entry points.

A package names the module of its task in the group ``headway.tasks``:

    [project.entry-points."headway.tasks"]
    stars = "own_task"

The module is a package laid out like a folder of ``headway.tasks`` (``own_task.spec.SPEC``, ``own_task.task.TASK``, and
``own_task.spec.COMMAND`` where its command is its own), or one file with these names.  Nothing is imported before it is
asked for.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from headway.errors import InputError

GROUP = "headway.tasks"
PORTING = "'A task of your own' in docs/architecture.md names what took the place of what"
FORMER = {"TASK": "room", "COMMAND": "command"}
"""The submodules of packages that had these constants before."""
FOLDERS = (".dist-info", ".egg-info")
"""How the names end of the folders in which installed packages say what they are."""


@dataclass(frozen=True)
class Plugin:
    """The task of another package."""

    name: str
    module: str
    origin: str
    """the package and its version"""

    def __str__(self) -> str:
        return f"the task {self.name!r} of {self.origin} ({self.module})"

    def part(self, file: str, constant: str, fits: Callable[[Any], bool], expected: str, otherwise: Any = None) -> Any:
        """A constant of the module, or of its submodule ``file``; without it, ``otherwise``.

        Raises InputError, in one line, for a module that cannot be imported, and for a constant that is missing or does
        not fit what is ``expected``.
        """
        try:
            is_former = constant in FORMER and _is_there(f"{self.module}.{FORMER[constant]}")
            place = f"{self.module}.{file}"
            module = import_module(place if _is_there(place) else self.module)
        except (Exception, SystemExit) as error:
            if isinstance(error, ImportError) and (error.name or "").startswith("headway."):
                lacks = f"it was written for another version of Headway, and this one has no {error.name}; {PORTING}"
                raise self.unusable(lacks) from error
            lines = str(error).strip().splitlines()
            other = isinstance(error, TypeError) and "abstract" not in str(error)
            why = f"{type(error).__name__}: {lines[0] if lines else ''}{f'; {PORTING}' * other}"
            raise self.unusable(f"importing it fails: {why}") from error
        if is_former:
            raise self.unusable(f"its {FORMER[constant]}.py is {file}.py now; {PORTING}")
        found = getattr(module, constant, otherwise)
        if found is None:
            raise self.unusable(f"{module.__name__} has no {constant}")
        if not fits(found):
            is_a = f"the class {found.__name__}" if isinstance(found, type) else f"of the type {type(found).__name__}"
            raise self.unusable(f"{module.__name__}.{constant} is {is_a}, expected {expected}")
        return found

    def unusable(self, why: str) -> InputError:
        """The error where the task cannot be used."""
        return InputError(f"{self} cannot be used: {why}.")


def _is_there(module: str) -> bool:
    """Whether there is such a submodule; the package itself is imported."""
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return False  # the module is one file


@cache
def plugins(taken: Collection[str]) -> tuple[MappingProxyType[str, Plugin], tuple[str, ...]]:
    """The tasks of installed packages by name, and a line about each that is left out because its name is ``taken``.

    Only the names of folders and their ``entry_points.txt`` are read: ``importlib.metadata`` takes as long to import as
    all else that ``headway --help`` needs, and is imported where such an entry point exists.
    """
    found: dict[str, Plugin] = {}
    left_out = []
    for plugin in _declared():
        other = found.get(plugin.name)
        if plugin.name in taken or (other is not None and other != plugin):
            by = "headway itself" if plugin.name in taken else other.origin if other is not None else ""
            left_out.append(f"{plugin} is left out: {by} has a task of that name")
        else:
            found[plugin.name] = plugin
    return MappingProxyType(found), tuple(left_out)


def _declared() -> list[Plugin]:
    """The entry points of the group, in the order of ``sys.path``; of a package that is there twice, the first."""
    folders = [folder for place in dict.fromkeys(sys.path) for folder in _folders(place or os.curdir)]
    if not folders:
        return []
    from importlib.metadata import Distribution
    from pathlib import Path

    found: dict[str, list[Plugin]] = {}
    for folder in map(Path, folders):
        package = Distribution.at(folder)
        name = package.metadata["Name"] or folder.name
        origin = f"{name} {package.version}" if package.metadata["Version"] else name
        those = [Plugin(one.name, one.module, origin) for one in package.entry_points if one.group == GROUP]
        found.setdefault(name, those)
    return [plugin for those in found.values() for plugin in those]


def _folders(place: str) -> list[str]:
    """The folders of packages in a directory whose entry points name the group."""
    found = []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        found = sorted(entry.path for entry in entries if entry.name.endswith(FOLDERS))
    return [folder for folder in found if _names_it(folder)]


def _names_it(folder: str) -> bool:
    try:
        with open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123  (pathlib would slow --help)
            return GROUP.encode() in file.read()
    except OSError:
        return False
