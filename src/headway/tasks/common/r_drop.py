"""R-Drop (Wu et al. 2021): a penalty on how much two passes over a batch, with different dropout, disagree.

Letters: N answers, V classes or vocabulary.
"""

import torch
from torch import Tensor

from headway.data.batches.batching import Batch


def twice(batch: Batch) -> Batch:
    """A batch of B rows as one of 2 B: all rows, and all again.  Dropout differs from row to row."""
    return batch.rows(torch.arange(len(batch), device=batch.targets.device).repeat(2))


def divergence(one: Tensor, other: Tensor) -> Tensor:
    """The mean of both Kullback-Leibler divergences between two sets of answers, summed over them, in nats.

    ``one`` and ``other`` are logits (N, V); the result is ().
    """
    p, q = one.log_softmax(dim=-1), other.log_softmax(dim=-1)
    return ((p.exp() - q.exp()) * (p - q)).sum() / 2
