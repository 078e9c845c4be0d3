"""The attention of a loaded model when it reads a text or an image."""

from typing import Any

from headway.errors import InputError
from headway.nn.global_state import isolated
from headway.tasks.common.inside import Inside
from headway.tasks.registry import room
from headway.tasks.task import Pipeline


@isolated()
def look_inside(pipe: Pipeline, text: Any, target: str | None = None) -> Inside:
    """The attention of a loaded model on a text, read as its pipeline reads it, or of an image model on an image.

    A translator also needs a target; the default is its own translation, by greedy search.  Raises InputError for a
    text without tokens or longer than the model reads, for a file that is not an image, and for a target that is given
    to another model.
    """
    found = room(pipe.task).inspect(pipe, text, target)
    if found is None:
        raise InputError(f"attention cannot be shown for {pipe.task.replace('_', ' ')} models.")
    return found
