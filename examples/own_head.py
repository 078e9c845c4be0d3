"""A task with a head of its own: how much is it worth, and how sure is that?  From scratch, or from a pretrained model.

Headway finds it by an entry point, which the pyproject.toml of its package names:

    [project.entry-points."headway.tasks"]
    worth = "own_head"

    headway train offers.csv --task worth --from MODEL        # a column of texts, a column of numbers
    headway appraise runs/offers "a used bicycle, 3 gears"    # {"value": 6.1, "spread": 0.9}

It learns numbers from 0 to about 10, such as tens of euros; `headway.tasks.regression` shows what larger ones need.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.models.config import TransformerConfig
from headway.tasks.base import TextTask
from headway.tasks.losses import RowLoss
from headway.tasks.spec import OF_TEXTS, TaskSpec
from headway.training.evaluation.metric import VAL_LOSS, Metric

ERROR = Metric("error", "mean error", lower_is_better=True, units="loss")
SPEC = TaskSpec(
    **{"name": "worth", "title": "Appraiser", "verb": "appraise", "help": "Guess what a text is worth."},
    **{"loss_unit": "nats per text", "answers": "number", "model_noun": "encoder that knows how sure it is"},
    **{"metrics": (ERROR, VAL_LOSS), "headline": (ERROR,), "options": OF_TEXTS | {"layout"}},
)


class ValueAndSpread(nn.Module):
    """A mean and the logarithm of a standard deviation, (B, 2), from the mean of the tokens, weighed by a query."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.out = nn.Linear(width, 1), nn.Linear(width, 2)

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = self.query(vectors)  # (B, T, 1)
        weights = (scores if mask is None else scores.masked_fill(~mask[..., None], -torch.inf)).softmax(dim=1)
        return self.out((weights * vectors).sum(dim=1))


class Gaussian(RowLoss):
    """-ln p of the number under a normal distribution."""

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        mean, log_spread = outputs.unbind(dim=1)
        return F.gaussian_nll_loss(mean, targets, (2 * log_spread).exp(), full=True, reduction="none")

    def means(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {ERROR.key: (outputs[:, 0] - targets).abs()}


class Worth(TextTask):
    spec, objective = SPEC, Gaussian()

    def new_head(self, config: TransformerConfig) -> nn.Module:
        return ValueAndSpread(config.d_model)

    def answers(self, outputs: Tensor) -> list[dict[str, Any]]:
        return [{"value": mean, "spread": math.exp(log_spread)} for mean, log_spread in outputs.tolist()]


TASK = Worth()
