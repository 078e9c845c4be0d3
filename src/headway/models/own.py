"""Models that a task brings along: their configuration, which plans, files and pipelines read, and heads of its own."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import InputError
from headway.models.config import ModelConfig, check_field, check_types
from headway.models.device import model_device
from headway.models.transformer import Encoder
from headway.models.wirings import wiring_name


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


LEAST, MOST = 64, 256
"""Tokens of a text, as far as the model reads so many: a part that begins to count after more of them is not seen."""
WORK = 1 << 32
"""Parameters times tokens, at most, beyond ``LEAST``: an answer takes less than writing the files."""
KEPT = 16
"""Values of an answer that are kept."""
CHANGED = 1e-3
"""How much they may differ from those of another machine, as a share of their root mean square."""


@torch.no_grad()
def short_answer(model: Any) -> Tensor:
    """The output of a model, in eval mode, for one image, or for two texts, of which the second is padded."""
    draw, device = torch.Generator().manual_seed(0), model_device(model)
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        if (patches := getattr(model, "patches", None)) is not None:
            return model(torch.randn(1, patches.channels, *patches.image_size, generator=draw).to(device))
        configs = [model.config, getattr(model, "encoder_config", model.config)]
        most = min(MOST, max(LEAST, WORK // sum(p.numel() for p in model.parameters())))
        length = min(most, *(config.max_length for config in configs))
        target, source = (torch.randint(one.vocab_size, (2, length), generator=draw).to(device) for one in configs)
        mask = torch.arange(length, device=device) < torch.tensor([[length], [-(-length // 2)]], device=device)
        answer = model(*((source, target, mask) if wiring_name(model) == "encoder-decoder" else (target, mask)))
        return answer
    finally:
        for module, mode in training.items():
            module.training = mode


def kept_answer(model: Any) -> list[float]:
    """Some values of the answer of a task's own model, which are kept where its weights are."""
    with torch.random.fork_rng(devices=[]):
        values = short_answer(model).detach().cpu().double().nan_to_num(0.0, 0.0, 0.0).flatten()
    return values[:: max(1, len(values) // KEPT)][:KEPT].tolist()


def check_answer(model: Any, kept: list[float] | None, where: str) -> None:
    """Raise InputError where a task's own model, whose weights are those of ``where``, answers otherwise than then."""
    if not isinstance(getattr(model, "config", None), OwnConfig) or kept is None:
        return
    then, now = (torch.tensor(values, dtype=torch.float64) for values in (kept, kept_answer(model)))
    if then.shape != now.shape or float((then - now).abs().max()) > CHANGED * float(then.square().mean().sqrt()):
        raise InputError(
            f"{where}: {model.config.described} answers otherwise than when these weights were saved: the package of "
            "the task, or one that it uses, has changed. Install the one of then, or train again."
        )
