"""A task of your own, outside the package: how many stars does a review give?  Its model and its loss are its own.

Headway finds it by an entry point, which the pyproject.toml of its package names:

    [project.entry-points."headway.tasks"]
    stars = "own_task"

    headway train reviews.csv --task stars --time 1m      # a column of texts, a column of numbers
    headway rate runs/reviews "Great battery, poor screen."
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.models.own import OwnConfig
from headway.tasks.base import TextTask
from headway.tasks.losses import RowLoss
from headway.tasks.spec import OF_TEXTS, TaskSpec
from headway.training.evaluation.metric import VAL_LOSS, Metric

ERROR = Metric("star_error", "mean error in stars", lower_is_better=True, units="loss")
SPEC = TaskSpec(
    **{"name": "stars", "title": "Star rating", "verb": "rate", "help": "Guess how many stars a review gives."},
    **{"loss_unit": "Huber loss per review", "answers": "number", "model_noun": "weighed mean of words"},
    **{"metrics": (ERROR, VAL_LOSS), "headline": (ERROR,), "options": OF_TEXTS},
)


class WeighedWords(nn.Module):
    """A number for each of B texts of T tokens: what its words say, each weighed by how telling it is."""

    def __init__(self, vocab_size: int, width: int):
        super().__init__()
        self.words, self.telling = nn.Embedding(vocab_size, width), nn.Embedding(vocab_size, 1)
        self.stars = nn.Linear(width, 1)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = self.telling(ids)  # (B, T, 1)
        weights = (scores if mask is None else scores.masked_fill(~mask[..., None], -torch.inf)).softmax(dim=1)
        return 3 + self.stars((weights * self.words(ids)).sum(dim=1)).squeeze(-1)  # (B,)


class Huber(RowLoss):
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.huber_loss(outputs, targets, reduction="none")

    def means(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {ERROR.key: (outputs - targets).abs()}


class Stars(TextTask):
    spec, objective = SPEC, Huber()

    def new_model(self, config: OwnConfig) -> nn.Module:
        return WeighedWords(config.vocab_size, config.d_model)


TASK = Stars()
