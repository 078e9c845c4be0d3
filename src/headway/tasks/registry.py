"""The list of tasks.  To add one, add a folder here and its name to ``NAMES``, or name it as an entry point.

A package of its own names the module of its task in the group ``headway.tasks``:

    [project.entry-points."headway.tasks"]
    stars = "own_task"

The module is a package laid out like a folder of ``headway.tasks`` (``own_task.spec.SPEC``, ``own_task.task.TASK``, and
``own_task.spec.COMMAND`` where its command is its own), or one file with these names.  Nothing is imported before it is
asked for.
"""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headway.errors import InputError, shown
from headway.tasks.spec import TaskSpec
from headway.training.evaluation.metric import VAL_LOSS, Metric

if TYPE_CHECKING:  # the protocol needs torch, and the specs do not
    from importlib.metadata import Distribution

    from headway.tasks.command import Command
    from headway.tasks.recognise import Recogniser
    from headway.tasks.task import Task

NAMES = (
    *("image_classification", "translation", "classification", "token_classification", "language_modeling"),
    *("masked_lm", "embedding", "multi_label", "regression", "ratings", "multi_column", "text_to_text"),
)
"""The tasks, in the order in which they are asked whether they recognise a model."""
FOLDERS = {"translation": "text_to_text"}
"""The folders of tasks that are not called as they are; their constants are by the name of the task."""
ANY = "predict"
"""The command that runs the models of any task."""
GROUP = "headway.tasks"
PORTING = "'A task of your own' in docs/architecture.md names what took the place of what"
FORMER_FILES = {"TASK": "room", "COMMAND": "command"}
"""The submodules of packages that had these constants before."""
INSTALLED = (".dist-info", ".egg-info")
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
            is_former = constant in FORMER_FILES and _is_there(f"{self.module}.{FORMER_FILES[constant]}")
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
            raise self.unusable(f"its {FORMER_FILES[constant]}.py is {file}.py now; {PORTING}")
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
    folders: list[str] = []
    for place in dict.fromkeys(sys.path):
        with contextlib.suppress(OSError), os.scandir(place or os.curdir) as entries:
            installed = sorted(entry.path for entry in entries if entry.name.endswith(INSTALLED))
            folders += filter(_names_it, installed)
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


def _names_it(folder: str) -> bool:
    """Whether the entry points of a package name the group."""
    try:
        with open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123  (pathlib would slow --help)
            return GROUP.encode() in file.read()
    except OSError:
        return False


def others() -> tuple[str, ...]:
    """The names of the tasks of other packages, which may turn out to be unusable."""
    return tuple(_plugins())


def _plugins() -> Mapping[str, Plugin]:
    return plugins(_values())[0]


@cache
def usable() -> tuple[str, ...]:
    """Those of them whose spec can be read; each of the rest is warned about, in one line."""
    names, lines = [], [*plugins(_values())[1]]
    for name in others():
        try:
            names.append(spec(name).name)
        except InputError as error:
            lines.append(str(error))
    for line in lines:
        warnings.warn(line, stacklevel=2)
    return tuple(names)


def packages(names: Collection[str]) -> "list[tuple[Distribution, str]]":
    """The installed packages that bring some of these tasks, each with the top-level module that it names."""
    from importlib.metadata import entry_points

    found: dict[str, tuple[Distribution, str]] = {}
    for point in entry_points(group=GROUP):
        if point.name in names and point.name in others() and point.dist is not None:
            found.setdefault(point.name, (point.dist, point.module.partition(".")[0]))
    return list(found.values())


def check(name: str) -> None:
    """Raise InputError for a task that does not exist, or is unusable."""
    if name not in (*NAMES, *others()):
        raise InputError(f"the task is {shown(name)}; it can be {', '.join((*NAMES, *others()))}.")
    task_named(name)


@cache
def spec(name: str) -> TaskSpec:
    """The spec of a task, without loading the task.

    Raises KeyError for an unknown task, and InputError for one of another package that is unusable.
    """
    found = _part(name, "spec", "SPEC", lambda one: isinstance(one, TaskSpec), "a TaskSpec")
    if name in NAMES:
        return found
    plugin = _plugins()[name]
    if found.name != name:
        raise plugin.unusable(f"its spec is named {found.name!r}, its entry point {name!r}")
    if found.verb in {spec(one).verb for one in NAMES} - {ANY}:
        raise plugin.unusable(f"headway itself has a command {found.verb!r}; choose another verb")
    return found


def known(name: str) -> TaskSpec:
    """The spec of a task that a file names; a generic one where the task is unknown."""
    with contextlib.suppress(KeyError, InputError):
        return spec(name)
    return TaskSpec(
        name,
        title=f"Model for {name.replace('_', ' ')}" if name else "Training run",
        logits=1.0,
        metrics=metrics(),
        headline=(*(one for one in metrics() if one.units and one != VAL_LOSS), VAL_LOSS),
    )


def values() -> tuple[str, ...]:
    """The values of ``--task``."""
    return (*_values(), *others())


@cache
def _values() -> tuple[str, ...]:
    return tuple(value for name in NAMES for value in (name, *spec(name).aliases))


def named(value: str) -> str:
    """The task that a value of ``--task`` names.  Raises InputError for any other value."""
    if value not in values():
        raise InputError(f"--task is {shown(value)}; it can be {', '.join(values())}.")
    return next((name for name in NAMES if value in (name, *spec(name).aliases)), value)


def metrics() -> tuple[Metric, ...]:
    """The metrics of all tasks of the list, each once."""
    return tuple({one.key: one for name in NAMES for one in spec(name).metrics}.values())


def with_verb(verb: str) -> tuple[str, ...]:
    """The tasks whose models a command runs."""
    return tuple(name for name in NAMES if spec(name).verb == verb) or tuple(
        name for name in usable() if spec(name).verb == verb
    )


def with_head(reads: str, wiring: str | None, gives: str, problem: str | None = None) -> str | None:
    """The task of models that read "text" or "picture", by their wiring and what their head gives; None for others.

    Where several tasks have such models, ``problem`` decides (``problem_type`` of ``config.json``).
    """
    specs = [spec(name) for name in NAMES]
    have = {one.problem: one.name for one in specs if one.reads == reads and (wiring, gives) in one.heads}
    return have.get(problem, have.get(None))


def supporting(what: str) -> tuple[str, ...]:
    """The tasks that support a feature (``TaskSpec.supports``)."""
    return tuple(name for name in NAMES if what in spec(name).supports)


@cache
def command(name: str) -> "type[Command]":
    """The command that runs a task's models, without torch.  Raises as ``spec`` does."""
    from headway.tasks.command import Command, plain_command

    def fits(found: Any) -> bool:
        return isinstance(found, type) and issubclass(found, Command)

    plain = None if name in NAMES else plain_command(spec(name))
    return _part(name, "spec", "COMMAND", fits, "a subclass of Command", plain)


@cache
def recogniser(name: str) -> "Recogniser":
    """How a task recognises its data, without torch.  Raises as ``spec`` does."""
    from headway.tasks.recognise import Recogniser, TextAndValue

    def fits(found: Any) -> bool:
        return isinstance(found, Recogniser) and found.task == name

    if name not in NAMES:
        task_named(name)  # one that cannot be used is named before its data are looked at
    return _part(name, "recognise", "RECOGNISER", fits, "a Recogniser of this task", TextAndValue(name))


@cache
def task_named(name: str) -> "Task":
    """A task.  Raises as ``spec`` does."""
    from headway.tasks.task import Task

    own = spec(name)

    def fits(found: Any) -> bool:
        return isinstance(found, Task) and getattr(found, "spec", None) == own

    return _part(name, "task", "TASK", fits, "an instance of a subclass of Task, with SPEC as its spec")


def _part(
    name: str, file: str, constant: str, fits: Callable[[Any], bool], expected: str, otherwise: Any = None
) -> Any:
    """A constant of a task's folder, or of another package's task (``Plugin.part``)."""
    if name not in NAMES:
        return _plugins()[name].part(file, constant, fits, expected, otherwise)
    found = getattr(import_module(f"headway.tasks.{FOLDERS.get(name, name)}.{file}"), constant)
    return found[name] if isinstance(found, Mapping) else found
