"""Which tasks there are.  Adding one is a folder here and its name in ``NAMES``."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from headway.tasks.spec import TaskSpec

if TYPE_CHECKING:  # the protocol needs torch, and what is said of a task does not
    from headway.tasks.command import Command
    from headway.tasks.task import Task

NAMES = (
    *("image_classification", "translation", "classification", "token_classification", "language_modeling"),
    *("masked_lm", "embedding"),
)
"""The rooms, in the order in which they are asked whether a model is theirs."""


@cache
def spec(name: str) -> TaskSpec:
    """What is said of a task, without loading it.  Raises KeyError for a task that does not exist."""
    if name not in NAMES:
        raise KeyError(name)
    found: TaskSpec = import_module(f"headway.tasks.{name}.spec").SPEC
    return found


def known(name: str) -> TaskSpec:
    """What is said of a task that a file names, which may be none that exists: then what can be said of any."""
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
        headline=("accuracy", "spearman", "chrf", "val_loss"),
    )


def supporting(what: str) -> tuple[str, ...]:
    """The tasks for which something works that does not work for all (``TaskSpec.supports``)."""
    return tuple(name for name in NAMES if what in spec(name).supports)


@cache
def command(name: str) -> "type[Command]":
    """The command that answers with a task's models, without torch.  Raises KeyError for a task that does not exist."""
    if name not in NAMES:
        raise KeyError(name)
    found: type[Command] = import_module(f"headway.tasks.{name}.command").COMMAND
    return found


@cache
def room(name: str) -> "Task":
    """A task.  Raises KeyError for one that does not exist."""
    if name not in NAMES:
        raise KeyError(name)
    found: Task = import_module(f"headway.tasks.{name}.room").TASK
    return found
