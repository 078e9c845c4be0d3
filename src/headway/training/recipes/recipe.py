"""What is particular to a task: how its data become a model, batches and a loss."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from headway.data.corpus import Corpus
from headway.data.detected import Detected
from headway.data.feed import Feed
from headway.data.table import Table
from headway.hub.preprocessor import ImagePreprocessor
from headway.tasks.task import Task
from headway.text.tokenizer import Tokenizer
from headway.training.base import Base
from headway.training.config import TrainOptions
from headway.training.plan import Plan
from headway.training.progress import Silent

SHOWN = "shown"
"""The key of what is measured for the report alone, and is no metric."""


@dataclass(frozen=True)
class Closing:
    """What is measured once, of the finished model."""

    seconds: float
    """how long it will take, about"""
    measure: Callable[[], dict[str, Any]]
    """the metrics"""


@dataclass(frozen=True)
class Ingredients:
    """What a recipe is made from."""

    source: Corpus | Table
    held_out: Corpus | Table | None
    """the validation files, if any were named"""
    found: Detected
    options: TrainOptions
    base: Base | None
    """the model that ``--from`` names"""
    tokenizer: Tokenizer | None
    """that of a run taken up again"""
    progress: Silent


class Recipe(ABC):
    """One task with its data, read, split and tokenised when it is made; then asked for plan, model, feed and task."""

    tokenizer: Tokenizer
    facts: dict[str, Any]
    """what headway.json says of the data"""
    baselines: list[dict[str, Any]]
    labels: list[str]
    """the classes of a classifier in order, or nothing"""
    unit: str = "rows"
    """what is held out, as a verdict counts it"""
    careful_below: int = 0
    """with fewer held-out units, weights are kept only where they are clearly better than those that are kept"""
    new_head: bool = False
    """whether the base lacks the head that the task needs, so that it begins with one that knows nothing"""

    @property
    def reader(self) -> Tokenizer | ImagePreprocessor:
        """What turns inputs into what the model reads; it is written beside the model."""
        return self.tokenizer

    @abstractmethod
    def __init__(self, given: Ingredients):
        """Read and check the data.  Raises InputError."""

    @abstractmethod
    def plan(self, seconds: float | None) -> Plan:
        """Everything decided, for ``seconds`` of training or for the steps that were asked for."""

    def settling(self, seconds: float | None) -> Callable[[Plan, float], Plan] | None:
        """What makes a plan final by the tokens that training reads in a second; None where nothing depends on it."""
        return None

    @abstractmethod
    def build(self, plan: Plan) -> nn.Module:
        """The model at the start of training, its weights drawn from the plan's seed or taken from the base."""

    @abstractmethod
    def feed(self, plan: Plan) -> Feed:
        """The batches that the plan wants of the data."""

    @abstractmethod
    def task(self, plan: Plan) -> Task:
        """Loss and metrics."""

    def fit(
        self, plan: Plan, model: nn.Module, show: Callable[[float, float], None], seconds: float | None = None
    ) -> bool:
        """Fit the model without the training loop, where the plan wants that, in ``seconds``; whether it was so.

        ``show`` is told the share that is done and a loss.
        """
        return False

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        """What each held-out unit came to with each baseline, by its name, as ``Task.evaluate`` gives it of a model."""
        return {}

    def cross_validation(self, plan: Plan, model: nn.Module, seconds: float | None) -> dict[str, Any] | None:
        """Repeated cross-validation of what is cheap to repeat, where too few examples are held out to judge by."""
        return None

    def sampler(self, model: nn.Module) -> Callable[[], str] | None:
        """What shows at each evaluation what the model can do now, or None."""
        return None

    def closing(self, model: nn.Module, limit: float | None) -> Closing | None:
        """What is measured at the end of a run of ``limit`` seconds, beside its loss; or None."""
        return None
