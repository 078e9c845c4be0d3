"""The plan of a run: every decision, with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from headway.models.baselines import BaselineConfig
from headway.models.config import Patches, TransformerConfig
from headway.models.own import OwnConfig
from headway.nn.kernels.products import TORCH
from headway.training.option_fields import RENAMED, Grouped

ADAM_BETAS = (0.9, 0.99)
"""Adam's betas: the decay of the means of gradients and of their squares."""
MUON_RATE = 20 / 3
"""Muon's rate over Adam's: 0.02 and 0.003, the published rate of Muon and the best measured rate of Adam."""


def decision_of(what: str, value: str, why: str, option: str) -> dict[str, str]:
    """A decision as a plan records it: what was decided, why, and the option that changes it."""
    return {"what": what, "value": value, "why": why, "option": option}


def decision_in_words(decision: Mapping[str, str]) -> str:
    """A decision as a plan records it, in one line."""
    change = f" ({decision['option']} to change)" if decision["option"] else ""
    return f"{decision['what']}: {decision['value']} - {decision['why']}{change}"


@dataclass(frozen=True)
class HardwarePlan:
    """How a batch is computed here."""

    shares: int = 1
    """the number of threads that compute a batch, each some of its rows"""
    products: str = TORCH
    """which library multiplies matrices in float32 (``nn.kernels.products``); "auto" until it is measured"""


@dataclass(frozen=True)
class MuonPlan:
    """What Muon has besides ``learning_rate``, which is Adam's."""

    muon_rate: float = MUON_RATE
    """Muon's learning rate over Adam's"""
    momentum: float = 0.95
    betas: tuple[float, float] = ADAM_BETAS
    """Adam's betas, for the parameters that Muon does not train"""
    embedding_rate: float = 1.0
    """the learning rate of untied token embeddings over Adam's"""


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """When a run evaluates, and when it stops early."""

    evaluations: int
    """number of evaluations; 0 until it is measured"""
    patience: int
    samples: int = 0
    """number of evaluations that show a sample; 0 for all"""
    patience_passes: float = 0.0
    """the run stops after so many epochs without a better evaluation; 0 for never"""
    validation_every: int = 1
    """validation reads every n-th window; above 1 where all of them would take too much of the time"""
    validation_part: int = 1
    """evaluations during training read every n-th batch of what is held out; the kept weights are measured on all"""


@dataclass(frozen=True, kw_only=True)
class ObjectivePlan:
    """Regularisation, and settings of single tasks."""

    token_dropout: float
    label_smoothing: float
    r_drop: float = 0.0
    """R-Drop: the weight of the divergence between two readings of a batch"""
    bpe_dropout: float = 0.0
    """BPE dropout: the probability that a merge is skipped in training"""
    mlm_probability: float = 0.0
    """masked_lm: the share of tokens to predict"""
    whole_words: bool = False
    """masked_lm: whether whole words are masked"""
    patches: dict[str, Any] | None = None
    """images: the fields of Patches"""
    augment: str = "none"
    """images: the augmentation in training (``data.images.batch_source``)"""


@dataclass(frozen=True)
class FineTuningPlan:
    """What a fine-tuned run trains of its pretrained model."""

    base: str | None = None
    """the model that the weights come from, or None where they are drawn at random"""
    layer_decay: float = 1.0
    """layer-wise decay: the learning rate of each block over the next block's"""
    freeze: int | None = None
    """how many of the first blocks are frozen, with the embeddings; None: all are trained"""
    lora: int | None = None
    """LoRA: the rank of the updates that are trained instead of the weights"""
    frozen: bool = False
    """linear probe: whether only a linear classifier on frozen vectors is fitted"""
    contrastive: bool = False
    """whether the vectors are first tuned on pairs of rows (SetFit)"""
    mean: bool = False
    """whether a classifier from a base reads the mean of its vectors (``hub.fine_tune``)"""


AS_GIVEN = ("max_grad_norm", "accumulate", "grow_batch", "batch_size", "patience", "seed", "on_spike", "log_every")
"""Fields of a plan that are what the options of the same names say."""


@dataclass(frozen=True, init=False, kw_only=True)
class Plan(Grouped):
    """The complete plan of a run.  headway.json stores it, flat, and a resumed run follows it."""

    model: dict[str, Any]
    """the fields of TransformerConfig, BaselineConfig or OwnConfig"""
    length: int
    batch_tokens: int
    optimizer: str
    learning_rate: float
    weight_decay: float
    schedule: str
    warmup: float
    max_grad_norm: float
    accumulate: int
    grow_batch: int
    average: float
    precision: str
    """float32 or bfloat16; "auto" until it is measured"""
    seed: int
    epochs: int | None = None
    """maximum number of epochs; time or steps may end the run earlier"""
    batch_size: int | None = None
    """maximum number of sequences per batch"""
    partitions: int = 0
    """--stream: the number of stream partitions, from which a batch takes its windows in turn; else 0"""
    on_spike: str = "report"
    """what to do with a loss spike: "report" it, or "skip" the step"""
    log_every: int = 10
    decisions: list[dict[str, str]] = field(default_factory=list)
    hardware: HardwarePlan
    muon: MuonPlan
    evaluating: EvaluationPlan
    objective: ObjectivePlan
    fine_tuning: FineTuningPlan

    @property
    def config(self) -> Any:
        """The model's configuration: a TransformerConfig, or another one that has what plans read of it."""
        kind = BaselineConfig if "kind" in self.model else OwnConfig if "task" in self.model else TransformerConfig
        return kind.from_dict(self.model)

    def decided(self, what: str, value: str, why: str, option: str, **changes: Any) -> Self:
        """A copy with one more decision, and with some values changed, by flat names."""
        return self.but(decisions=[*self.decisions, decision_of(what, value, why, option)], **changes)

    @property
    def cut(self) -> Patches:
        """The patches of images.  Raises ValueError for a plan of a text model."""
        patches = self.objective.patches
        if patches is None:
            raise ValueError("this plan is for a model that reads no images")
        return Patches(tuple(patches["image_size"]), tuple(patches["patch_size"]), patches["channels"])


FORMER_NAMES = {**RENAMED, "max_examples": "batch_size", "lanes": "partitions"}
"""Names of options and of fields of a plan in records of earlier versions, and their present names."""
