"""Which tasks there are.  Adding one is a folder here and its name in ``NAMES``."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from headway.tasks.spec import TaskSpec

if TYPE_CHECKING:  # the protocol needs torch, and what is said of a task does not
    from headway.tasks.command import Command
    from headway.tasks.task import Task

NAMES = (*("image_classification", "translation", "classification", "language_modeling", "masked_lm", "embedding"),)
"""The rooms, in the order in which they are asked whether a model is theirs."""


@cache
def spec(name: str) -> TaskSpec:
    """What is said of a task, without loading it.  Raises KeyError for a task that does not exist."""
    if name not in NAMES:
        raise KeyError(name)
    found: TaskSpec = import_module(f"headway.tasks.{name}.spec").SPEC
    return found


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
