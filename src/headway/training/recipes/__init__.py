"""One file for each task that can be trained for."""

from headway.training.recipes.classification import ClassificationRecipe
from headway.training.recipes.language_modeling import LanguageModelRecipe
from headway.training.recipes.recipe import Ingredients, Recipe

RECIPES: dict[str, type[Recipe]] = {
    "classification": ClassificationRecipe,
    "language_modeling": LanguageModelRecipe,
}
"""By the name of the task."""

__all__ = ["RECIPES", "Ingredients", "Recipe"]
