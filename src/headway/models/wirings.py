"""A model from the name of its wiring, of Transformer blocks or of a baseline's layers; several models as one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.baselines import (
    BaselineClassificationHead,
    BaselineConfig,
    BaselineEncoder,
    RecurrentDecoder,
    RecurrentEncoderDecoder,
)
from headway.models.heads import ClassificationHead
from headway.models.size import Wiring
from headway.models.transformer import Decoder, Encoder, EncoderDecoder

BASELINES = {"decoder": RecurrentDecoder, "encoder": BaselineEncoder, "encoder-decoder": RecurrentEncoderDecoder}
TRANSFORMERS = {"decoder": Decoder, "encoder": Encoder, "encoder-decoder": EncoderDecoder}


def build_model(config: Any, wiring: str, n_classes: int | None = None) -> nn.Module:
    """The model of a TransformerConfig or BaselineConfig; an encoder gets a head if ``n_classes`` is given.

    Its weights are as torch makes them; ``initialise`` draws them.  Raises ValueError for an unknown wiring, and for
    classes without an encoder.
    """
    if wiring not in TRANSFORMERS:
        raise ValueError(f"wiring is {wiring!r}, but must be one of {', '.join(TRANSFORMERS)}")
    if n_classes is not None and wiring != "encoder":
        raise ValueError(f"{n_classes} classes are for an encoder, not for wiring {wiring!r}")
    baseline = isinstance(config, BaselineConfig)
    kind = (BASELINES if baseline else TRANSFORMERS)[wiring]
    if n_classes is None:
        return kind(config)
    if baseline:
        return kind(config, BaselineClassificationHead(config, n_classes))
    return kind(config, ClassificationHead(config, n_classes, norm=True, dropout=config.dropout))


def wiring_name(model: nn.Module) -> Wiring | None:
    """The wiring of a model, or None for any other module."""
    for known in (BASELINES, TRANSFORMERS):
        for name, kind in known.items():
            if isinstance(model, kind):
                return name  # type: ignore[return-value]
    return None


class Ensemble(nn.Module):
    """Classifiers with the same classes, whose probabilities are averaged."""

    def __init__(self, members: Sequence[nn.Module]):
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs at least one member")
        self.members = nn.ModuleList(members)

    @property
    def config(self) -> Any:
        """The configuration of the first member; the others read the same tokens."""
        return self.members[0].config

    def forward(self, ids: Tensor, mask: Tensor | None = None, **segments: Tensor) -> Tensor:
        """(B, T) int -> (B, C): logarithms of the mean probabilities, in place of logits."""
        each = torch.stack(
            [member(ids, mask, **segments).float().softmax(dim=-1) for member in self.members]
        )  # (M, B, C)
        return each.mean(dim=0).log()
