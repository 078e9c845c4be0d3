"""The protocol of a task: everything that is specific to it.

The data flow: file -> ``Task.open_data`` -> ``TaskData`` -> batches -> ``Objective.loss`` -> training loop -> run
directory -> ``Task.pipeline`` -> answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from torch import Tensor, nn

from headway.data.batches.batch_source import BatchSource
from headway.data.batches.batching import Batch
from headway.data.open.columns import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.split import few
from headway.data.records.table import Table
from headway.hub.preprocessor import ImagePreprocessor
from headway.models.config import TransformerConfig
from headway.models.own import OwnConfig
from headway.tasks.held_out import EvaluationInputs, Parts
from headway.tasks.spec import TaskSpec
from headway.text.tokenizer import Tokenizer
from headway.training.base import Base
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.progress import Progress

if TYPE_CHECKING:
    from headway.formats.hf.loaders import ExternalLoader
    from headway.tasks.checks import Material, MaterialInputs
    from headway.tasks.inspection import Inside

FORMER = {
    **{"settling": "finalize_plan", "closing": "final_metrics", "careful_below": "min_units", "trial": "sample_batch"},
    **{"comparable": "normalize_answers", "beginning": "first_rows", "made_up": "synthetic_data"},
}
"""What methods and attributes of tasks and of their data were called before."""
SHOWN = "shown"
"""The key of what is measured only for the report, and is not a metric."""


@dataclass(frozen=True)
class FinalMetrics:
    """A measurement of the finished model."""

    seconds: float
    """its approximate duration in seconds"""
    measure: Callable[[], dict[str, Any]]
    """the metrics"""


@dataclass(frozen=True)
class TaskInputs:
    """The inputs of a task's data."""

    source: Corpus | Table
    held_out: Corpus | Table | None
    """the validation files, if any"""
    found: Detected
    options: TrainOptions
    base: Base | None
    """the model of ``--from``"""
    tokenizer: Tokenizer | None
    """the tokenizer of a run that is resumed"""
    progress: Progress
    earlier: dict[str, Any] | None = None
    """headway.json of a run that is resumed"""
    before: dict[str, np.ndarray] = field(default_factory=dict)
    """by task, hashes of the texts that the base and the runs before it were trained on"""
    repeated: list[int] = field(default_factory=list)
    """the seeds of the splits of bases that only trained on these very data, -1 for one that trained on all of them"""
    silent: list[str] = field(default_factory=list)
    """bases that do not say what they were trained on"""


class Named:
    """A class whose subclasses may have no former names, which would do nothing."""

    def __init_subclass__(cls, **given: Any):
        """Raises TypeError for a former name."""
        super().__init_subclass__(**given)
        if former := [name for name in FORMER if name in vars(cls)]:
            raise TypeError(f"{cls.__name__}.{former[0]} is {FORMER[former[0]]} now")


class TaskData(Named, ABC):
    """A task's data: read, split and tokenised when it is made; then asked for plan, model, batches and objective."""

    tokenizer: Tokenizer
    facts: dict[str, Any]
    """the facts of the data in headway.json"""
    baselines: list[dict[str, Any]]
    labels: list[str]
    """the classes of a classifier in order, or nothing"""
    unit: str = "rows"
    """the number of held-out units, as a verdict counts them"""
    texts_in_row: int = 1
    """the texts of up to ``Plan.length`` tokens that a row of a batch has"""
    min_units: int = 0
    """with fewer held-out units, weights are kept only where they are clearly better than the kept ones"""
    fitted: dict[str, Any] | None = None
    """how ``fit`` has fitted the model, as a run records it"""
    used: int | None = None
    """rows that were trained on, where time was too short for all"""
    parts: Parts | None = None
    """rows to train on and held-out ones, where there are rows"""
    of_baselines: Mapping[str, np.ndarray] = MappingProxyType({})
    """what ``baseline_units`` gives, where no plan changes it"""
    new_head: bool = False
    """whether the base lacks the head that the task needs, so that the head starts untrained"""

    @property
    def processor(self) -> Tokenizer | ImagePreprocessor:
        """The processor (tokenizer or image preprocessor); it is saved with the model."""
        return self.tokenizer

    @abstractmethod
    def __init__(self, given: TaskInputs):
        """Read and check the data.  Raises InputError."""

    @abstractmethod
    def plan(self, seconds: float | None) -> Plan:
        """The complete plan, for ``seconds`` of training or for the requested steps."""

    def finalize_plan(self, seconds: float | None) -> Callable[[Plan, float], Plan] | None:
        """The function that completes a plan from the tokens that training reads per second; None where not needed."""
        return None

    @abstractmethod
    def build(self, plan: Plan) -> nn.Module:
        """The model at the start of training, its weights drawn by the plan's seed or copied from the base."""

    @abstractmethod
    def batch_source(self, plan: Plan) -> BatchSource:
        """The batches of the data, by the plan."""

    @abstractmethod
    def objective(self, plan: Plan) -> Objective:
        """Loss and metrics."""

    def fit(
        self, plan: Plan, model: nn.Module, show: Callable[[float, float], None], seconds: float | None = None
    ) -> bool:
        """Fit the model without the training loop in ``seconds``, where the plan says so; returns whether it did.

        ``show`` is called with the progress from 0 to 1 and a loss.
        """
        return False

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        """The results of each baseline on each held-out unit, by name, as ``Objective.evaluate`` gives them."""
        return dict(self.of_baselines)

    def cross_validation(self, plan: Plan, model: nn.Module, seconds: float | None) -> dict[str, Any] | None:
        """Repeated cross-validation of cheap models, where too few examples are held out to judge by."""
        return None

    def sampler(self, model: nn.Module) -> Callable[[], str] | None:
        """The function that shows a sample of the model at each evaluation, or None."""
        return None

    def final_metrics(self, model: nn.Module, limit: float | None) -> FinalMetrics | None:
        """The measurement at the end of a run of ``limit`` seconds, in addition to the loss; or None."""
        return None


class Pipeline(Protocol):
    """A model with all that it needs to answer."""

    task: str
    """the name of its task"""
    model: Any
    tokenizer: Any
    """None for a model that reads no text"""
    runtime: Any
    """the device, batches and threads (``runtime.Runtime``)"""

    def __call__(self, given: Any, /, *args: Any, **options: Any) -> Any:
        """The answer to one input, or the answers to a list, in order."""


@dataclass(frozen=True)
class Timed:
    """How a pipeline is called when its speed is measured."""

    answer: Callable[[Any], Any]
    """answers one input, or a list of them"""
    inputs: Sequence[Any]
    each: int = 1
    """the count of each answer: 1, or its number of generated tokens"""


@dataclass(frozen=True)
class Scaling:
    """How ``scale`` makes new models of a task in all sizes."""

    config: Callable[[int, int, int, int, int], TransformerConfig]
    """vocabulary, width, layers, heads and length -> the configuration"""
    parameters: Callable[[TransformerConfig], dict[str, int]]
    """the number of parameters, as in ``models.size.parameters``"""
    build: Callable[[TransformerConfig], nn.Module]
    """a new model"""
    trial: Callable[[Tensor, int], tuple[Objective, Batch]]
    """random ids (B, T) and the vocabulary size -> a batch and its objective"""


class Task(Named, ABC):
    """One task: its spec, and the functions that make its data, its pipeline and its measurements."""

    spec: TaskSpec
    pipeline_tag = ""
    """the task as the Hugging Face hub names it; empty where it has no name for it"""
    loader: "ClassVar[ExternalLoader | None]" = None
    """how another library opens what is saved, where that is the same for all models of the task"""
    reads_pairs: ClassVar[bool] = False
    """whether an input is two texts, which are one row with a segment each"""

    @abstractmethod
    def open_data(self, given: TaskInputs) -> TaskData:
        """The prepared data of a run.  Raises InputError."""

    @abstractmethod
    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Pipeline:
        """The pipeline of a model that was loaded from ``directory``, which has one of the heads that ``spec`` names.

        ``facts`` is its headway.json, or empty.  Raises InputError for a model of this task that cannot
        answer.
        """

    @abstractmethod
    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        """The metrics of a pipeline, with ``examples``, the number of counted texts or tokens.  Raises InputError."""

    def new_model(self, config: OwnConfig) -> nn.Module:
        """A model that only this task can build, with any weights; (B, T) ids and mask in, a tensor (B, ...) out."""
        raise NotImplementedError(f"the models of {self.spec.name} are not its own")

    def external_loader(self, pipe: Any, model: nn.Module, architecture: str) -> "ExternalLoader | None":
        """How another library opens a model and gets its answers; None where it only has the bare model.

        ``architecture`` is what its ``config.json`` names.
        """
        return self.loader

    def scaling(self) -> Scaling | None:
        """How its models are made in all sizes; None where ``scale`` does not support it."""
        return None

    def metric_needs(self) -> str | None:
        """A sentence that names the package which the metric of ``compare`` needs, if it is missing."""
        return None

    def some_inputs(self, source: Corpus | Table, found: Detected, count: int) -> list[Any]:
        """At most ``count`` inputs of a file, to measure speed with."""
        if isinstance(source, Table):
            return few((text for text in source.values(str(found.text_column)) if text.strip()), count)
        chunk = next(iter(source.chunks()))[0]
        lines = [line for line in chunk.splitlines() if len(line.strip()) > 20]
        return lines[:count] or [chunk[:80]]

    def timed(self, pipe: Any, inputs: Sequence[Any], tokens: int) -> Timed:
        """How its speed is measured on some inputs; a model that continues texts writes ``tokens`` for each."""
        return Timed(pipe, inputs)

    def held_out_inputs(self, pipe: Any, given: EvaluationInputs, count: int) -> list[Any]:
        """At most ``count`` inputs of the held-out data, by which ways to compute the same answers are compared.

        None for a task whose answers are not compared so.  Raises InputError as ``evaluate`` does.
        """
        return []

    def normalize_answers(self, pipe: Any, inputs: Sequence[Any]) -> list[Any]:
        """The answer to each input in the form in which it is compared: what must be equal, or a vector (D,)."""
        return [to_compare(answer) for answer in pipe(list(inputs))]

    def reads_conversations(self, pipe: Any) -> bool:
        """Whether a file of conversations is data for this model, instead of a table."""
        return False

    def inspect(self, pipe: Any, given: Any, target: str | None) -> "Inside | None":
        """What the model attends to in an input (and a target); None where that cannot be shown.  Raises InputError."""
        return None

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch] | None:
        """Objective and batch by which ``verify`` checks that gradients of parts add up; None where they cannot.

        ``inputs`` are random ids (or images) for the model, ``targets`` as many random ids of its outputs.
        """
        return None

    def processor(self, pipe: Any) -> Tokenizer | ImagePreprocessor:
        """The processor of the pipeline."""
        return pipe.tokenizer

    def read(self, pipe: Any, model: nn.Module, ids: Tensor, mask: Tensor | None, **segments: Tensor) -> Tensor:
        """A model's output for ids (B, T): logits (B, T, V) of tokens, or (B, C) or (B, D) for each text.

        ``model`` is the pipeline's, or a saved copy of it; one with several segments is given ``segments`` too.
        """
        return model(ids, mask, **segments)

    def first_rows(
        self, source: Corpus | Table, found: Detected, options: TrainOptions, given: "MaterialInputs"
    ) -> "Material | None":
        """The first part of a run's own data, to train on for a few steps; None where that would take long."""
        from headway.tasks.checks import first_rows

        return first_rows(source, found, given)

    def synthetic_data(self, pipe: Any, given: "MaterialInputs") -> "Material | None":
        """Synthetic data to train on for a few steps, which the model can read and write; None where there are none."""
        return None


class FolderTask(Task):
    """A task with a folder in ``headway.tasks``."""

    def open_data(self, given: TaskInputs) -> TaskData:
        return self.file("data").open_data(given)

    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        return self.file("data").measure(pipe, given)

    def held_out_inputs(self, pipe: Any, given: EvaluationInputs, count: int) -> list[Any]:
        return self.file("data").held_out_inputs(pipe, given, count)

    def scaling(self) -> Scaling | None:
        return getattr(self.file("data"), "SCALING", None)

    def first_rows(
        self, source: Corpus | Table, found: Detected, options: TrainOptions, given: "MaterialInputs"
    ) -> "Material | None":
        own = getattr(self.file("data"), "first_rows", super().first_rows)
        return own(source, found, options, given)

    def inspect(self, pipe: Any, given: Any, target: str | None) -> "Inside":
        from headway.tasks.inspection import of_text

        return of_text(pipe, given, target, following=bool(self.spec.writes))

    def synthetic_data(self, pipe: Any, given: "MaterialInputs") -> "Material | None":
        from headway.tasks.checks import synthetic_text

        return synthetic_text(pipe, given.length, given.folder)

    def file(self, name: str) -> Any:
        """A module of the folder."""
        return import_module(f"{type(self).__module__.rpartition('.')[0]}.{name}")


def to_compare(answer: Any) -> Any:
    """What of an answer must be equal however it was computed: labels, and numbers to three digits."""
    if not isinstance(answer, dict):
        return f"{answer:.3g}" if isinstance(answer, float) else answer
    if of_columns(answer):
        return {name: to_compare(one) for name, one in answer.items()}
    named = next((answer[name] for name in ("labels", "label") if name in answer), None)
    return named if named is not None else {name: to_compare(one) for name, one in answer.items() if name != "scores"}


def of_columns(answer: Any) -> bool:
    """Whether an answer holds one for each of several columns, which may be called ``label`` or ``value``."""
    return isinstance(answer, dict) and bool(answer) and all(isinstance(one, dict) for one in answer.values())
