"""x Wᵀ + b for few rows on a CPU: a token of a text, or of each of a few texts.

For few rows torch's product (MKL's) uses one thread, whatever the processor; oneDNN's, in the same torch, shares the
rows of the matrix among the threads, so that it is read as fast as memory allows.  With one row of 768 numbers and the
50,257 tokens of GPT-2, that is 2.4 times as fast on two threads (benchmarks/results/products.json).

Letters: N rows, I inputs, O outputs.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

TOLERANCE = 1e-5
"""The greatest relative difference from torch's product with which oneDNN's is used."""


def linear_few_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b without a gradient: (..., I), (O, I), (O,) -> (..., O)."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return found


@cache
def is_usable() -> bool:
    """Whether this torch has oneDNN's product, and it gives what torch's own does; tried once, on a small matrix."""
    if not torch.backends.mkldnn.is_available():
        return False
    steps = torch.arange(1.0, 65.0, device="cpu")
    x, weight, bias = steps.sin().reshape(2, 32), torch.outer(steps.cos(), steps[:32].sqrt()), steps
    try:
        found = linear_few_rows(x, weight, bias)
    except (AttributeError, RuntimeError, TypeError):  # the operation is internal to torch, and may change
        return False
    expected = F.linear(x, weight, bias)
    return bool((found - expected).abs().max() <= TOLERANCE * expected.abs().max())
