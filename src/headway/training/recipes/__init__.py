"""One file for each task that can be trained for."""

from headway.data.dialogues import Dialogues
from headway.data.streamed import Streamed
from headway.errors import InputError
from headway.tasks.registry import NAMES, room
from headway.tasks.task import TaskData, TaskInputs
from headway.training.recipes.dialogue import DialogueData
from headway.training.recipes.embedding import EmbeddingData
from headway.training.recipes.image_classification import ImageData
from headway.training.recipes.language_modeling import LanguageModelData
from headway.training.recipes.masked_lm import MaskedLMData
from headway.training.recipes.streaming import STREAMED

RECIPES: dict[str, type[TaskData]] = {
    "embedding": EmbeddingData,
    "image_classification": ImageData,
    "language_modeling": LanguageModelData,
    "masked_lm": MaskedLMData,
}
"""By the name of the task."""


def recipe_for(given: TaskInputs) -> TaskData:
    """The data made ready for their task.  Raises InputError."""
    source, held_out = given.source, given.held_out
    talk = isinstance(source, Dialogues)
    if held_out is not None and isinstance(held_out, Dialogues) != talk:
        one, other = (source, held_out) if talk else (held_out, source)
        raise InputError(f"{one.name} holds conversations, {other.name} does not; they must be of one kind.")
    if talk:
        return DialogueData(given)
    if isinstance(source, Streamed):
        return STREAMED[given.found.task](given)
    if given.found.task in NAMES:
        return room(given.found.task).open_data(given)
    return RECIPES[given.found.task](given)


__all__ = ["RECIPES", "TaskData", "TaskInputs", "recipe_for"]
