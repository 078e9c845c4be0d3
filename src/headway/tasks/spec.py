"""The description of a task: plain data, so that ``--help`` and reports do not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.training.evaluation.metric import VAL_LOSS, Metric

OF_TEXTS = frozenset(
    {"text_column", "label_column", "second_column", "encoding", "delimiter"}
    | {"tokenizer", "vocab", "length", "extend_vocab"}
)
"""Options for texts only."""
OF_ROWS = OF_TEXTS | {"layout", "weight_column"}
"""Options of texts with something to learn of each."""
OF_KINDS = frozenset({"model", "match_parameters", "config_overrides"})
"""Options of tasks that support other kinds of model."""
KINDS_CALLED = {"bow": "bag of words", "cnn": "CNN", "rnn": "RNN", "lstm": "LSTM", "gru": "GRU"}
TRY_ANOTHER = "That baseline is not kept; try another pretrained model, or train on more data."
"""What to do where a baseline is better than a run from a pretrained model."""


@dataclass(frozen=True, eq=False)  # a task has one spec; without == the class is made sooner, which --help waits for
class TaskSpec:
    """One task in words and names."""

    name: str
    """as ``--task`` and ``headway.json`` name it"""
    title: str
    """the heading of a report"""
    verb: str = "predict"
    """the command that runs its models; two tasks may share one, and ``predict`` runs all"""
    argument: str = '"..."'
    """the placeholder of an input in a suggested command line"""
    unit: str = "row"
    """what ``examples`` counts, in the singular"""
    loss_unit: str = ""
    """the unit of its loss"""
    logits: float = 0.0
    """the share of tokens with logits; 0 where there is one answer for a whole text"""
    help: str = ""
    """what that command does, in a line"""
    answers: str = "text"
    """what an answer is: text, labels, spans, vectors, ranking or number"""
    model_noun: str = "own model"
    """what reports call a model that only this task can build"""
    reads: str = "text"
    """what an input is: "text" or "picture" """
    heads: tuple[tuple[str, str], ...] = ()
    """the wiring of its models and what their heads give (``models.heads.Gives``); no other task that reads the same
    has one of them, so that a model which names no task is known by it"""
    problem: str | None = None
    """``problem_type`` in ``config.json`` of its models, where tasks share a head; None: one label for each text"""
    named_heads: tuple[tuple[str, str], ...] = ()
    """further ones, of models that name this task"""
    metrics: tuple[Metric, ...] = (VAL_LOSS,)
    """the metrics of its models, in the order in which they are shown"""
    headline: tuple[Metric, ...] = (VAL_LOSS,)
    """of these, the metrics by which models are compared: the first one that a model has"""
    outputs: str = "outputs"
    """the model's output, as ``verify`` calls it"""
    writes: str = ""
    """what it generates: "continuations" of a text, "targets" for one, or nothing"""
    compared: tuple[Metric, ...] = (VAL_LOSS,)
    """of these, the metrics by which ``compare`` decides between kinds of model: the first one that they have"""
    answer_unit: str = "texts answered"
    """what is counted where the speed of answers is measured"""
    models: tuple[str, ...] = ()
    """kinds of model for ``--model``"""
    options: frozenset[str] = frozenset()
    """the task-specific options that this task reads"""
    searched: frozenset[str] = frozenset()
    """of these, the options that ``tune`` searches"""
    aliases: tuple[str, ...] = ()
    """more values of ``--task`` for this task: kinds of its data"""
    advice_if_baseline_wins: tuple[str, str] = (
        "That baseline is not kept; start from a pretrained model (--from).",
        TRY_ANOTHER,
    )
    """what to do where a baseline is better: for a run from scratch, and for one from a pretrained model"""
    supports: frozenset[str] = frozenset({"ranks"})
    """the features that it supports: ranks (several processes), seeds (--seeds), planning (a plan without data)"""
    pretrain_with: str | None = None
    """the task that ``--adapt`` first trains on the same texts"""

    def called_as(self, model: Mapping[str, Any]) -> str:
        """What reports call a model, by what its plan says of it."""
        return KINDS_CALLED.get(str(model.get("kind")), self.model_noun if "task" in model else "Transformer")

    def metric(self, key: str) -> Metric:
        """The metric of a key in ``headway.json``; one that the task does not have is named by its key."""
        found = (*self.metrics, *self.headline, *self.compared)
        return next((one for one in found if one.key == key), Metric(key, key.replace("_", " ")))
