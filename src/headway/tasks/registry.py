"""The list of tasks.  To add one, add a folder here and its name to ``NAMES``, or name it as an entry point.

Tasks of other packages (``tasks.plugins``) are used by name like those of the list; their code is imported when they
are asked for.
"""

import warnings
from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headway.errors import InputError, shown
from headway.tasks.plugins import GROUP, Plugin, plugins
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


def others() -> tuple[str, ...]:
    """The names of the tasks of other packages, which may turn out to be unusable."""
    return tuple(_plugins())


def _plugins() -> Mapping[str, Plugin]:
    return plugins(_values())[0]


@cache
def usable() -> tuple[str, ...]:
    """Those of them whose spec can be read; each of the rest is warned about, in one line."""
    found = []
    for line in plugins(_values())[1]:
        warnings.warn(line, stacklevel=2)
    for name in others():
        try:
            spec(name)
        except InputError as error:
            warnings.warn(str(error), stacklevel=2)
        else:
            found.append(name)
    return tuple(found)


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
    if name in NAMES:
        return _part(name, "spec", "SPEC")
    plugin: Plugin = _plugins()[name]
    found: TaskSpec = plugin.part("spec", "SPEC", lambda one: isinstance(one, TaskSpec), "a TaskSpec")
    if found.name != name:
        raise plugin.unusable(f"its spec is named {found.name!r}, its entry point {name!r}")
    if found.verb in {spec(one).verb for one in NAMES} - {ANY}:
        raise plugin.unusable(f"headway itself has a command {found.verb!r}; choose another verb")
    return found


def known(name: str) -> TaskSpec:
    """The spec of a task that a file names; a generic one where the task is unknown."""
    try:
        return spec(name)
    except (KeyError, InputError):
        pass
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

    if name in NAMES:
        return _part(name, "spec", "COMMAND")

    def fits(found: Any) -> bool:
        return isinstance(found, type) and issubclass(found, Command)

    plain = plain_command(spec(name))
    return _plugins()[name].part("spec", "COMMAND", fits, "a subclass of Command", plain)


@cache
def recogniser(name: str) -> "Recogniser":
    """How a task recognises its data, without torch.  Raises as ``spec`` does."""
    from headway.tasks.recognise import Recogniser, TextAndValue

    if name in NAMES:
        return _part(name, "recognise", "RECOGNISER")

    def fits(found: Any) -> bool:
        return isinstance(found, Recogniser) and found.task == name

    task_named(name)  # a task that cannot be used is named before its data are looked at
    return _plugins()[name].part("recognise", "RECOGNISER", fits, "a Recogniser of this task", TextAndValue(name))


@cache
def task_named(name: str) -> "Task":
    """A task.  Raises as ``spec`` does."""
    from headway.tasks.task import Task

    if name in NAMES:
        return _part(name, "task", "TASK")
    own = spec(name)

    def fits(found: Any) -> bool:
        return isinstance(found, Task) and getattr(found, "spec", None) == own

    return _plugins()[name].part("task", "TASK", fits, "an instance of a subclass of Task, with SPEC as its spec")


def _part(name: str, module: str, what: str) -> Any:
    found = getattr(import_module(f"headway.tasks.{FOLDERS.get(name, name)}.{module}"), what)
    return found[name] if isinstance(found, Mapping) else found
