"""What a loaded model attends to when it reads a text or a picture."""

from typing import Any

from headway.errors import InputError
from headway.tasks.common.inside import Inside
from headway.tasks.registry import room
from headway.tasks.task import Pipeline


def look_inside(pipe: Pipeline, text: Any, target: str | None = None) -> Inside:
    """The attention of a loaded model on a text, read as its pipeline reads it; of a model of pictures on a picture.

    A translator also needs a target; without one its own translation is taken, by greedy search.  Raises InputError
    for a text without tokens or longer than the model reads, for what is no picture, and for a target that is given to
    another model.
    """
    found = room(pipe.task).inspect(pipe, text, target)
    if found is None:
        raise InputError(f"the attention of models for {pipe.task.replace('_', ' ')} cannot be shown.")
    return found
