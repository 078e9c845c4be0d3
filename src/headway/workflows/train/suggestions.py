"""Options that a run suggests to change its decisions: only those that this run would accept."""

import re
from typing import Any

from headway.errors import InputError
from headway.training.option_fields import flag, kind_of
from headway.training.options import OPTIONS, TrainOptions
from headway.workflows.train.check import check_for_task

BY_FLAG = {flag(field.name): field for field in OPTIONS.values()}


def to_change(options: TrainOptions, task: str, flags: str) -> str:
    """The flags, out of "--preset, --d-model" and the like, that a run with these options and task also accepts."""
    return ", ".join(f"--{name}" for name in re.findall(r"--([a-z-]+)", flags) if accepts(options, task, name))


def advice(options: TrainOptions, task: str, flags: str) -> str:
    """ " (--preset to change)" with the flags that the run accepts; nothing where it accepts none."""
    found = to_change(options, task, flags)
    return f" ({found} to change)" if found else ""


def accepts(options: TrainOptions, task: str, name: str) -> bool:
    """Whether the same options with another value of the option ``--name`` are valid."""
    field = BY_FLAG.get(name)
    if field is None or field.name in options.named:
        return field is not None  # it was given, and can be changed or left out
    for value in _values(field):
        try:
            check_for_task(options.but(**{field.name: value}), task)
        except InputError:
            continue
        return True
    return False


def _values(field: Any) -> list[Any]:
    """Sample values of an option; if it accepts any value, it accepts one of these."""
    some: dict[str, list[Any]] = {"bool": [True], "int": [2, 1], "float": [0.5, 0.1], "str": ["2s", "2"]}
    choices = [choice for choice in field.metadata["choices"] if choice != field.default]
    return choices or some[kind_of(field)[0]]
