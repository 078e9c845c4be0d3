"""One file for each task that can be trained for."""

from headway.data.dialogues import Dialogues
from headway.data.streamed import Streamed
from headway.errors import InputError
from headway.training.recipes.classification import ClassificationRecipe
from headway.training.recipes.dialogue import DialogueRecipe
from headway.training.recipes.embedding import EmbeddingRecipe
from headway.training.recipes.image_classification import ImageRecipe
from headway.training.recipes.language_modeling import LanguageModelRecipe
from headway.training.recipes.masked_lm import MaskedLMRecipe
from headway.training.recipes.prefix import PrefixRecipe
from headway.training.recipes.recipe import Ingredients, Recipe
from headway.training.recipes.streaming import STREAMED
from headway.training.recipes.translation import TranslationRecipe

RECIPES: dict[str, type[Recipe]] = {
    "classification": ClassificationRecipe,
    "embedding": EmbeddingRecipe,
    "image_classification": ImageRecipe,
    "language_modeling": LanguageModelRecipe,
    "masked_lm": MaskedLMRecipe,
    "translation": TranslationRecipe,
}
"""By the name of the task."""


def recipe_for(given: Ingredients) -> Recipe:
    """The data made ready for their task.  Raises InputError."""
    source, held_out = given.source, given.held_out
    talk = isinstance(source, Dialogues)
    if held_out is not None and isinstance(held_out, Dialogues) != talk:
        one, other = (source, held_out) if talk else (held_out, source)
        raise InputError(f"{one.name} holds conversations, {other.name} does not; they must be of one kind.")
    if talk:
        return DialogueRecipe(given)
    if isinstance(source, Streamed):
        return STREAMED[given.found.task](given)
    if given.found.task == "translation" and given.options.model == "decoder":
        return PrefixRecipe(given)
    return RECIPES[given.found.task](given)


__all__ = ["RECIPES", "Ingredients", "Recipe", "recipe_for"]
