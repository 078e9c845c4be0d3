"""A model that only its task can build, checked where it is made."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import InputError
from headway.models.own import OwnConfig
from headway.models.short_answer import short_answer
from headway.tasks.task import Task

READS = "Its forward must take ids int64 (B, T) and a mask bool (B, T), and return a tensor (B, ...)."


def own_model(task: Task, config: OwnConfig) -> nn.Module:
    """The model that a task builds, with its configuration.

    Raises InputError for one that could not be saved whole, and for one that does not read ids and a mask.
    """
    made = task.new_model(config)
    if not isinstance(made, nn.Module):
        raise InputError(f"new_model of {config.task} returns a {type(made).__name__}, expected a torch.nn.Module.")
    if kept := [name for name, _ in made.named_buffers() if name in made.state_dict()]:
        raise InputError(
            f"{config.described} keeps {kept[0]!r} as a buffer, but only parameters are saved: make it a parameter "
            "(requires_grad=False), or register it with persistent=False."
        )
    weights = dict(made.named_parameters())
    if not weights:
        raise InputError(f"{config.described} has no parameters, so there is nothing to train.")
    if other := [name for name, p in weights.items() if p.is_floating_point() and p.dtype != torch.float32]:
        raise InputError(f"{config.described} has {other[0]!r} in {weights[other[0]].dtype}; expected torch.float32.")
    model: Any = made
    model.config = config
    try:
        answer = short_answer(model)
    except Exception as error:
        why = str(error).split("\n")[0]
        raise InputError(f"{config.described} reads no texts ({type(error).__name__}: {why}). {READS}") from error
    if not isinstance(answer, Tensor) or answer.shape[:1] != (2,):
        found = f"a tensor {tuple(answer.shape)}" if isinstance(answer, Tensor) else f"a {type(answer).__name__}"
        raise InputError(f"{config.described} gives {found} for two texts. {READS}")
    model.build_own = partial(own_model, task)  # by which a saved one is loaded again and compared
    return made
