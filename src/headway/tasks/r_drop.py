"""R-Drop (Wu et al. 2021): two readings of one batch with different dropout may not say different things.

Letters: N answers, V classes or vocabulary.
"""

from torch import Tensor


def divergence(one: Tensor, other: Tensor) -> Tensor:
    """The mean of both Kullback-Leibler divergences between two sets of answers, summed over them, in nats.

    ``one`` and ``other`` are logits (N, V); the result is ().
    """
    p, q = one.log_softmax(dim=-1), other.log_softmax(dim=-1)
    return ((p.exp() - q.exp()) * (p - q)).sum() / 2
