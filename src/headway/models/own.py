"""Models that a task brings along: their configuration, which plans, files and pipelines read, and heads of its own."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from headway.models.config import ModelConfig, check_field, check_types
from headway.models.transformer import Encoder


@dataclass(frozen=True)
class OwnConfig(ModelConfig):
    """The sizes of a model that only its task can build.  Checked on construction: a wrong value raises ValueError."""

    task: str
    """the task, which builds the model"""
    vocab_size: int
    d_model: int = 64
    """width of its vectors"""
    n_layers: int = 1
    max_length: int = 256
    """maximum tokens of a text"""
    dropout: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)
    """further sizes, by name"""

    def __post_init__(self) -> None:
        check_types(self)
        known = isinstance(self.dropout, int | float) and 0 <= self.dropout < 1
        check_field(self, known, "dropout", "a number from 0 to below 1")
        if not isinstance(self.task, str) or not isinstance(self.more, dict):
            raise ValueError("task must be a text, and more a dict")

    @property
    def described(self) -> str:
        """What the model is, for messages."""
        return f"the own model of {self.task}"


class WithHead(nn.Module):
    """An encoder with a head that only its task knows: vectors (B, T, D) and mask in, a tensor (B, ...) out."""

    def __init__(self, encoder: Encoder, head: nn.Module):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """The output of the head for ids and mask (B, T)."""
        return self.head(self.encoder(ids, mask, segments=segments), mask)
