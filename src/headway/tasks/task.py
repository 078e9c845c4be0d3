"""What a task is: everything that is particular to it, behind one protocol.

    spec(name)      plain data about a task, without torch         headway.tasks.NAME.spec.SPEC
    command(name)   the command that answers with its models       headway.tasks.NAME.command.COMMAND
    room(name)      the task itself                                headway.tasks.NAME.room.TASK

The way of the data: file -> ``Task.open_data`` -> ``TaskData`` -> batches -> ``Objective.loss`` -> training loop -> run
directory -> ``Task.pipeline`` -> answers.  What uses tasks (workflows, science, reports, the command line) asks
``tasks.registry`` and knows no task by name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch import Tensor, nn

from headway.data.batches import Batch
from headway.data.corpus import Corpus
from headway.data.detected import Detected
from headway.data.feed import Feed
from headway.data.table import Table
from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.models.config import TransformerConfig
from headway.tasks.spec import TaskSpec
from headway.text.tokenizer import Tokenizer
from headway.training.base import Base
from headway.training.monitor.progress import Progress
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Plan

if TYPE_CHECKING:
    from headway.tasks.common.doors import Door
    from headway.tasks.common.inside import Inside
    from headway.tasks.common.material import Material, MaterialInputs

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
class TaskInputs:
    """What the data of a task are made from."""

    source: Corpus | Table
    held_out: Corpus | Table | None
    """the validation files, if any were named"""
    found: Detected
    options: TrainOptions
    base: Base | None
    """the model that ``--from`` names"""
    tokenizer: Tokenizer | None
    """the tokenizer of a run that is resumed"""
    progress: Progress


class TaskData(ABC):
    """A task's data: read, split and tokenised when it is made; then asked for plan, model, batches and objective."""

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
    def processor(self) -> Tokenizer | ImagePreprocessor:
        """What turns inputs into what the model reads; it is saved with the model."""
        return self.tokenizer

    @abstractmethod
    def __init__(self, given: TaskInputs):
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
    def objective(self, plan: Plan) -> Objective:
        """Loss and metrics."""

    def fit(
        self, plan: Plan, model: nn.Module, show: Callable[[float, float], None], seconds: float | None = None
    ) -> bool:
        """Fit the model without the training loop, where the plan wants that, in ``seconds``; whether it was so.

        ``show`` is told the progress from 0 to 1 and a loss.
        """
        return False

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        """What each held-out unit came to with each baseline, by its name, as ``Objective.evaluate`` gives it."""
        return {}

    def cross_validation(self, plan: Plan, model: nn.Module, seconds: float | None) -> dict[str, Any] | None:
        """Repeated cross-validation of what is cheap to repeat, where too few examples are held out to judge by."""
        return None

    def sampler(self, model: nn.Module) -> Callable[[], str] | None:
        """What shows at each evaluation what the model can do now, or None."""
        return None

    def closing(self, model: nn.Module, limit: float | None) -> Closing | None:
        """What is measured at the end of a run of ``limit`` seconds, besides its loss; or None."""
        return None


@dataclass(frozen=True)
class EvaluationInputs:
    """What a saved model is measured on."""

    source: Corpus | Table
    found: Detected
    facts: dict[str, Any]
    """headway.json of the run, or nothing"""
    options: TrainOptions
    same: bool
    """whether these are the files that the run was trained on, of which the held-out part is meant"""
    whole: bool = False
    """whether all of it is measured, also where training measured some windows alone"""
    trained_on: Callable[[], Corpus | Table | None] = lambda: None
    """reads what the run was trained on; None where it is gone or has changed"""
    each: list[np.ndarray] = field(default_factory=list)
    """is given what each unit came to (``Objective.evaluate``), in any order; of classes, in their own"""
    baselines: list[dict[str, Any]] = field(default_factory=list)
    """is given the baselines that were measured on the same, and ``of_baselines`` what each unit came to with them"""
    of_baselines: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def before(self) -> dict[str, Any]:
        """The options of the run."""
        return self.facts.get("options", {})

    @property
    def plan(self) -> dict[str, Any]:
        """The plan of the run."""
        return self.facts.get("plan", {})

    @property
    def every(self) -> int:
        """Which windows of a text are measured: every n-th."""
        return int(self.plan.get("validation_every", 1)) if self.same and not self.whole else 1

    def length(self, longest: int) -> int:
        """The length in tokens that the run was measured at: a model that was not made there may read more."""
        return min(longest, int(self.plan.get("length", longest)))

    def table(self, what: str) -> Table:
        """The source as a table.  Raises InputError, with ``what`` a model is measured on, for any other."""
        if not isinstance(self.source, Table):
            raise InputError(f"{self.source.name}: {what}.")
        return self.source

    def corpus(self, what: str) -> Corpus:
        """The source as running text.  Raises InputError, with ``what`` a model is measured on, for any other."""
        if not isinstance(self.source, Corpus):
            raise InputError(f"{self.source.name}: {what}.")
        return self.source


class Pipeline(Protocol):
    """What answers with a model."""

    task: str
    """the name of its task"""
    model: Any
    tokenizer: Any
    """None of a model that reads no text"""
    runtime: Any
    """where and how the model computes (``runtime.Runtime``)"""

    def __call__(self, given: Any, /, *args: Any, **options: Any) -> Any:
        """The answer to one input, or those to a list, in order."""


@dataclass(frozen=True)
class Timed:
    """How a pipeline is asked when its speed is measured."""

    answer: Callable[[Any], Any]
    """answers one input, or a list of them"""
    inputs: Sequence[Any]
    each: int = 1
    """what is counted of each answer: 1, or the tokens that are written"""


@dataclass(frozen=True)
class Scaling:
    """How new models of a task are made in all sizes, for ``scale``."""

    config: Callable[[int, int, int, int, int], TransformerConfig]
    """vocabulary, width, layers, heads and length -> the configuration"""
    parameters: Callable[[TransformerConfig], dict[str, int]]
    """how many they are, as ``models.size.parameters`` has them"""
    build: Callable[[TransformerConfig], nn.Module]
    """a new model"""
    trial: Callable[[Tensor, int], tuple[Objective, Batch]]
    """random ids (B, T) and the size of the vocabulary -> a batch, and what it is trained for"""


class Task(ABC):
    """One task: its spec, and what makes its data, its pipeline and its measurements."""

    spec: TaskSpec

    @abstractmethod
    def open_data(self, given: TaskInputs) -> TaskData:
        """The data of a run, made ready.  Raises InputError."""

    @abstractmethod
    def pipeline(self, model: nn.Module, directory: Path, facts: dict[str, Any]) -> Pipeline | None:
        """What answers with a model that was loaded from ``directory``; None for a model of another task.

        ``facts`` are those of its headway.json, or nothing.  Raises InputError for a model of this task that cannot
        answer.
        """

    @abstractmethod
    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        """The metrics of a pipeline, with ``examples``: how many texts or tokens were counted.  Raises InputError."""

    def claims(self, model: nn.Module) -> bool:
        """Whether a model that comes without a word about its task is one of this, by its wiring and its head."""
        return False

    def door(self, pipe: Any, model: nn.Module, architecture: str) -> "Door | None":
        """How a user of other programs opens a model and has its answers; None where there is but the bare model.

        ``architecture`` is what its ``config.json`` names.
        """
        return None

    def scaling(self) -> Scaling | None:
        """How its models are made in all sizes; None where ``scale`` cannot be asked for a law."""
        return None

    def metric_needs(self) -> str | None:
        """What is to be installed before the metric can be measured that ``compare`` decides by, as a sentence."""
        return None

    def some_inputs(self, source: Corpus | Table, found: Detected, count: int) -> list[Any]:
        """Some inputs of a file, ``count`` of them at most, with which speed is measured."""
        if isinstance(source, Table):
            return [text for text in source.column(str(found.text_column))[: 4 * count] if text.strip()][:count]
        chunk = next(iter(source.chunks()))[0]
        lines = [line for line in chunk.splitlines() if len(line.strip()) > 20]
        return lines[:count] or [chunk[:80]]

    def timed(self, pipe: Any, inputs: Sequence[Any], tokens: int) -> Timed:
        """How its speed is measured on some inputs; what goes on from a text writes ``tokens`` for each."""
        return Timed(pipe, inputs)

    def reads_conversations(self, pipe: Any) -> bool:
        """Whether a file of conversations is data of the model as such, and no table."""
        return False

    def inspect(self, pipe: Any, given: Any, target: str | None) -> "Inside | None":
        """What the model attends to in an input (and a target); None where that cannot be shown.  Raises InputError."""
        return None

    def trial(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch] | None:
        """Objective and batch by which ``verify`` checks that gradients of parts add up; None where they cannot.

        ``inputs`` are random ids (or pictures) of what the model reads, ``targets`` of what it may write, as many.
        """
        return None

    def processor(self, pipe: Any) -> Tokenizer | ImagePreprocessor:
        """What turns inputs into what the model reads."""
        found: Tokenizer | ImagePreprocessor = pipe.tokenizer
        return found

    def read(self, pipe: Any, model: nn.Module, ids: Tensor, mask: Tensor | None) -> Tensor:
        """What a model gives for ids (B, T): logits (B, T, V) of tokens, or (B, C) or (B, D) for each text.

        ``model`` is the pipeline's, or another that was saved from it or as it.
        """
        found: Tensor = model(ids, mask)
        return found

    def beginning(
        self, source: Corpus | Table, found: Detected, options: TrainOptions, given: "MaterialInputs"
    ) -> "Material | None":
        """The beginning of a run's own data, as data to train on for a few steps; None where that would take long."""
        from headway.tasks.common.material import beginning

        return beginning(source, found, given)

    def made_up(self, pipe: Any, given: "MaterialInputs") -> "Material | None":
        """Made-up data to train on for a few steps, of what the model can read and write; None where there are none."""
        return None
