"""The loss of each row of a batch, for evaluation.

Letters: B batch, T length, N places, V vocabulary.
"""

import numpy as np
import torch.nn.functional as F
from torch import Tensor


def row_losses(logits: Tensor, targets: Tensor, wanted: Tensor) -> np.ndarray:
    """(sum of -ln p, number of targets) of each row of a batch: float64 (B, 2).

    ``wanted``, bool (B, T), is true where a target is; logits (N, V) and targets (N,) are theirs, row by row.
    """
    losses = F.cross_entropy(logits, targets, reduction="none").double().cpu().numpy()  # (N,)
    mask = wanted.cpu().numpy()
    rows = np.nonzero(mask)[0]
    return np.stack([np.bincount(rows, weights=losses, minlength=len(mask)), mask.sum(axis=1)], axis=1)
