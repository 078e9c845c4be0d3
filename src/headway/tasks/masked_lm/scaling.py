"""Masked language models in all sizes, of which ``scale`` finds the law."""

import torch

from headway.data.batches.batching import Batch
from headway.models.config import TransformerConfig
from headway.models.heads import MaskedTokenHead
from headway.models.size import parameters
from headway.tasks.masked_lm.data import MASK_SHARE_FROM_SCRATCH, encoder_config, new_model
from headway.tasks.masked_lm.objective import MaskedLM
from headway.tasks.task import Scaling


def _parameters(config: TransformerConfig) -> dict[str, int]:
    return parameters(config, wiring="encoder", head=MaskedTokenHead.size_of(config, dense_bias=False))


def _trial(ids: torch.Tensor, vocab_size: int) -> tuple[MaskedLM, Batch]:
    return MaskedLM(0, {0}, vocab_size, share=MASK_SHARE_FROM_SCRATCH), Batch(ids, None, ids)


SCALING = Scaling(encoder_config, _parameters, lambda config: new_model(config, 0), _trial)
