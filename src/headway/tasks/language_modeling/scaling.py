"""Language models in all sizes, of which ``scale`` finds the law."""

import torch
from torch import nn

from headway.data.batches.batching import Batch
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.size import parameters
from headway.models.transformer import Decoder
from headway.tasks.common.next_token import LanguageModeling
from headway.tasks.task import Scaling
from headway.training.sizing.presets import decoder_config


def _build(config: TransformerConfig) -> nn.Module:
    return initialise(Decoder(config), 0)


def _trial(ids: torch.Tensor, vocab_size: int) -> tuple[LanguageModeling, Batch]:
    return LanguageModeling(), Batch(ids, None, ids)


SCALING = Scaling(decoder_config, parameters, _build, _trial)
