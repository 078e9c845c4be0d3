"""The pretrained model that a run begins from (``--from``)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from headway.errors import InputError
from headway.hub.directory import load_model, model_config
from headway.models.dropout import set_dropout
from headway.models.freeze import freeze
from headway.text.tokenizer import Tokenizer
from headway.training.presets import Plan


@dataclass(frozen=True)
class Base:
    """A loaded model with its tokenizer."""

    path: Path
    model: nn.Module
    tokenizer: Tokenizer

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return model_config(self.model)


def load_base(place: str) -> Base:
    """The model of a run or of a Hugging Face directory.  Raises InputError when there is none."""
    path = Path(place)
    if not path.is_dir():
        raise InputError(f"--from {place}: no such model directory.")
    model = load_model(path)
    return Base(path, model, Tokenizer.load(path, rows=model_config(model).vocab_size))


def prepared_base(model: nn.Module, plan: Plan) -> nn.Module:
    """A base made ready to be trained as planned: its dropout set, and what stays as it is frozen; in place."""
    set_dropout(model, plan.config.dropout)
    freeze(model, plan.freeze)
    return model
