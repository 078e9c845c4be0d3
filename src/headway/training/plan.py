"""What a run will be, with nothing left to decide, and why."""

from dataclasses import dataclass, field
from typing import Any

from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.patches import Patches
from headway.training.grouped import Grouped
from headway.training.options import TrainOptions

ADAM_BETAS = (0.9, 0.99)
"""How slowly the means of Adam's gradients and of their squares change."""
MUON_RATE = 20 / 3
"""Muon's rate over Adam's: 0.02 beside 0.003, the published rate of the one and the best measured of the other."""


@dataclass(frozen=True)
class Decision:
    """One thing that was decided: what, why, and the option that would change it."""

    what: str
    value: str
    why: str
    option: str


@dataclass(frozen=True)
class MuonPlan:
    """What Muon has besides ``learning_rate``, which is Adam's."""

    muon_rate: float = MUON_RATE
    """its learning rate over Adam's"""
    momentum: float = 0.95
    betas: tuple[float, float] = ADAM_BETAS
    """Adam's, for what Muon does not train"""
    embedding_rate: float = 1.0
    """the learning rate of token embeddings that are not tied, over Adam's"""


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """When a run evaluates, and when it ends for want of a better evaluation."""

    evaluations: int
    """how often to evaluate; 0 until it is measured"""
    patience: int
    samples: int = 0
    """how many of the evaluations show a sample; 0 for all"""
    patience_passes: float = 0.0
    """the run ends after so many passes over the data without a better evaluation; 0 for never"""
    validation_every: int = 1
    """validation reads every n-th window; above 1 where all of them would take too much of the time"""


@dataclass(frozen=True, kw_only=True)
class ObjectivePlan:
    """How the loss is made harder, and what some tasks alone have."""

    token_dropout: float
    label_smoothing: float
    r_drop: float = 0.0
    """the weight of the divergence between two readings of a batch"""
    bpe_dropout: float = 0.0
    """the probability with which a merge of subwords is left out in training"""
    mask_share: float = 0.0
    """masked_lm: the share of tokens to be predicted"""
    whole_words: bool = False
    """masked_lm: whether whole words are hidden"""
    patches: dict[str, Any] | None = None
    """images: the fields of Patches, how pictures are cut"""
    augment: str = "none"
    """images: what is done to pictures in training (``data.augment``)"""


@dataclass(frozen=True)
class FineTuningPlan:
    """What is trained of a model that the run begins from."""

    base: str | None = None
    """the model that the weights come from, or None when they are drawn"""
    layer_decay: float = 1.0
    """the learning rate of each block over that of the next"""
    freeze: int | None = None
    """how many of the first blocks stay as they are, with the embeddings; None: all are trained"""
    lora: int | None = None
    """the rank of the updates that are trained instead of the weights"""
    frozen: bool = False
    """whether only a linear classifier is fitted, in closed form, on vectors that stay as they are"""
    contrastive: bool = False
    """whether the vectors are tuned by pairs of rows before that"""
    mean: bool = False
    """whether a classifier from a base reads the mean of its vectors (``hub.mean_pooling``)"""


@dataclass(frozen=True, init=False, kw_only=True)
class Plan(Grouped):
    """A run with nothing left to decide.  It is kept in headway.json, flat, and a resumed run follows it."""

    model: dict[str, Any]
    """the fields of TransformerConfig, or of BaselineConfig"""
    length: int
    batch_tokens: int
    optimizer: str
    learning_rate: float
    weight_decay: float
    schedule: str
    warmup: float
    clip: float
    accumulate: int
    grow_batch: int
    average: float
    precision: str
    """float32 or bfloat16; "auto" until it is measured"""
    seed: int
    epochs: int | None = None
    """passes over the data after which the run ends, if its time or steps have not ended it"""
    max_examples: int | None = None
    lanes: int = 0
    """--stream: in how many lanes the shards are read, from which a batch takes its windows in turn; else 0"""
    shares: int = 1
    """in how many threads a batch is computed, each with some of its rows"""
    on_spike: str = "report"
    """what a loss far above those before it means: "report", or "skip" to leave the step out"""
    log_every: int = 10
    decisions: list[dict[str, str]] = field(default_factory=list)
    muon: MuonPlan
    evaluating: EvaluationPlan
    objective: ObjectivePlan
    fine_tuning: FineTuningPlan

    @property
    def config(self) -> Any:
        """The model's configuration: a TransformerConfig, or a BaselineConfig, which has the fields that plans read."""
        return (BaselineConfig if "kind" in self.model else TransformerConfig).from_dict(self.model)

    @property
    def cut(self) -> Patches:
        """How pictures are cut.  Raises ValueError for a plan of a model of texts."""
        patches = self.objective.patches
        if patches is None:
            raise ValueError("this plan is of a model that reads no pictures")
        return Patches(tuple(patches["image_size"]), tuple(patches["patch_size"]), patches["channels"])


OF_OPTIONS = {"max_grad_norm": "clip", "mlm_probability": "mask_share"}
"""Options whose fields of a plan have another name."""


def as_asked(options: TrainOptions) -> dict[str, Any]:
    """What every plan takes from the options as it is; "auto" and 0 are measured later."""
    names = ("max_grad_norm", "accumulate", "grow_batch", "patience", "seed", "on_spike", "log_every")
    asked = {OF_OPTIONS.get(name, name): options.value(name) for name in names}
    asked |= {name: options.value(name) or 0.0 for name in ("average", "r_drop", "bpe_dropout")}
    evaluations, precision = options.run.evaluations or 0, options.runtime.precision or "auto"
    return {**asked, "evaluations": evaluations, "precision": precision}
