"""The list of tasks.  To add one, add a folder here and its name to ``NAMES``."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from headway.errors import InputError, shown
from headway.tasks.spec import TaskSpec
from headway.training.evaluation.metric import VAL_LOSS, Metric

if TYPE_CHECKING:  # the protocol needs torch, and the specs do not
    from headway.tasks.command import Command
    from headway.tasks.recognise import Recogniser
    from headway.tasks.task import Task

NAMES = (
    *("image_classification", "translation", "classification", "token_classification", "language_modeling"),
    *("masked_lm", "embedding"),
)
"""The tasks, in the order in which they are asked whether they recognise a model."""


@cache
def spec(name: str) -> TaskSpec:
    """The spec of a task, without loading the task.  Raises KeyError for an unknown task."""
    if name not in NAMES:
        raise KeyError(name)
    found: TaskSpec = import_module(f"headway.tasks.{name}.spec").SPEC
    return found


def known(name: str) -> TaskSpec:
    """The spec of a task that a file names; a generic one where the task is unknown."""
    if name in NAMES:
        return spec(name)
    return TaskSpec(
        name,
        title=f"Model for {name.replace('_', ' ')}" if name else "Training run",
        verb="predict",
        argument='"..."',
        counted="row",
        loss_unit="",
        logits=1.0,
        metrics=metrics(),
        headline=(*(one for one in metrics() if one.units and one != VAL_LOSS), VAL_LOSS),
    )


def values() -> tuple[str, ...]:
    """The values of ``--task``."""
    return tuple(value for name in NAMES for value in (name, *spec(name).also))


def named(value: str) -> str:
    """The task that a value of ``--task`` names.  Raises InputError for any other value."""
    if value not in values():
        raise InputError(f"--task is {shown(value)}; it can be {', '.join(values())}.")
    return next(name for name in NAMES if value in (name, *spec(name).also))


def metrics() -> tuple[Metric, ...]:
    """The metrics of all tasks, each once."""
    return tuple({one.key: one for name in NAMES for one in spec(name).metrics}.values())


def supporting(what: str) -> tuple[str, ...]:
    """The tasks that support a feature (``TaskSpec.supports``)."""
    return tuple(name for name in NAMES if what in spec(name).supports)


@cache
def command(name: str) -> "type[Command]":
    """The command that runs a task's models, without torch.  Raises KeyError for an unknown task."""
    if name not in NAMES:
        raise KeyError(name)
    found: type[Command] = import_module(f"headway.tasks.{name}.command").COMMAND
    return found


@cache
def recogniser(name: str) -> "Recogniser":
    """How a task recognises its data, without torch.  Raises KeyError for an unknown task."""
    if name not in NAMES:
        raise KeyError(name)
    found: Recogniser = import_module(f"headway.tasks.{name}.recognise").RECOGNISER
    return found


@cache
def room(name: str) -> "Task":
    """A task.  Raises KeyError for an unknown one."""
    if name not in NAMES:
        raise KeyError(name)
    found: Task = import_module(f"headway.tasks.{name}.room").TASK
    return found
