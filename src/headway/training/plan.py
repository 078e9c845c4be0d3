"""What a run will be, with nothing left to decide, and why."""

from dataclasses import asdict, dataclass, field
from typing import Any

from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.patches import Patches
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
class Plan:
    """A run with nothing left to decide.  It is kept in headway.json, and a resumed run follows it."""

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
    token_dropout: float
    label_smoothing: float
    average: float
    patience: int
    evaluations: int
    """how often to evaluate; 0 until it is measured"""
    precision: str
    """float32 or bfloat16; "auto" until it is measured"""
    seed: int
    samples: int = 0
    """how many of the evaluations show a sample; 0 for all"""
    epochs: int | None = None
    """passes over the data after which the run ends, if its time or steps have not ended it"""
    patience_passes: float = 0.0
    """the run ends after so many passes over the data without a better evaluation; 0 for never"""
    validation_every: int = 1
    """validation reads every n-th window; above 1 where all of them would take too much of the time"""
    max_examples: int | None = None
    r_drop: float = 0.0
    """the weight of the divergence between two readings of a batch"""
    bpe_dropout: float = 0.0
    """the probability with which a merge of subwords is left out in training"""
    lanes: int = 0
    """--stream: in how many lanes the shards are read, from which a batch takes its windows in turn; else 0"""
    shares: int = 1
    """in how many threads a batch is computed, each with some of its rows"""
    muon_rate: float = MUON_RATE
    """Muon's learning rate over Adam's, which is ``learning_rate``"""
    momentum: float = 0.95
    """Muon's"""
    betas: tuple[float, float] = ADAM_BETAS
    """Adam's, beside Muon"""
    embedding_rate: float = 1.0
    """that of token embeddings that are not tied over Adam's, beside Muon"""
    on_spike: str = "report"
    """what a loss far above those before it means: "report", or "skip" to leave the step out"""
    log_every: int = 10
    decisions: list[dict[str, str]] = field(default_factory=list)
    base: str | None = None
    """the model that the weights come from, or None when they are drawn"""
    layer_decay: float = 1.0
    """the rate of each block over that of the next"""
    freeze: int | None = None
    """how many of the first blocks stay as they are, with the embeddings; None: all are trained"""
    lora: int | None = None
    """the rank of the updates that are trained instead of the weights"""
    frozen: bool = False
    """whether only a linear classifier is fitted, in closed form, on vectors that stay as they are"""
    contrastive: bool = False
    """whether the vectors are tuned by pairs of rows before that"""
    mean: bool = False
    """whether a classifier from a base reads the mean of its vectors (``hub.mean_layer``)"""
    mask_share: float = 0.0
    """masked_lm: the share of tokens to be predicted"""
    whole_words: bool = False
    """masked_lm: whether whole words are hidden"""
    patches: dict[str, Any] | None = None
    """images: the fields of Patches, how pictures are cut"""
    augment: str = "none"
    """images: what is done to pictures in training (``data.augment``)"""

    @property
    def config(self) -> Any:
        """The model's configuration: a TransformerConfig, or a BaselineConfig, which has the fields that plans read."""
        return (BaselineConfig if "kind" in self.model else TransformerConfig).from_dict(self.model)

    @property
    def cut(self) -> Patches:
        """How pictures are cut.  Raises ValueError for a plan of a model of texts."""
        if self.patches is None:
            raise ValueError("this plan is of a model that reads no pictures")
        image, patch = tuple(self.patches["image_size"]), tuple(self.patches["patch_size"])
        return Patches(image, patch, self.patches["channels"])

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def as_asked(options: TrainOptions) -> dict[str, Any]:
    """What every plan takes from the options as it is; "auto" and 0 are measured later."""
    names = ("clip", "accumulate", "grow_batch", "patience", "seed", "on_spike", "log_every")
    asked = {name: getattr(options, name) for name in names}
    asked |= {name: getattr(options, name) or 0.0 for name in ("average", "r_drop", "bpe_dropout")}
    return {**asked, "evaluations": options.evaluations or 0, "precision": options.precision or "auto"}
