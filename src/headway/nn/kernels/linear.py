"""x Wᵀ + b by oneDNN on a CPU, in place of the library that torch's own product calls (MKL).

For few rows MKL uses one thread, whatever the processor; oneDNN shares the rows of the matrix among the threads, and
reads it as fast as memory allows.  On a processor with AVX-512 that is not Intel's, MKL computes with AVX2 and oneDNN
with AVX-512, so that every product is twice as fast (benchmarks/results/products.json).

Letters: N rows, I inputs, O outputs.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

TOLERANCE = 1e-5
"""The greatest relative difference from torch's product with which oneDNN's is used."""

FUSED = {"relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh"), "tanh": ("tanh", "")}
"""The activations that oneDNN computes while it writes a product, and its names for them."""


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
    """x Wᵀ + b without a gradient, and one of the activations in FUSED of it: (..., I), (O, I), (O,) -> (..., O).

    The matrix may lie in memory by rows or by columns: by columns, a few rows are multiplied up to twice as fast.
    """
    kind, algorithm = ("none", "") if activation is None else FUSED[activation]
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, kind, [], algorithm)


class OneDnnLinear(torch.autograd.Function):
    """``onednn_linear`` with its gradient, which is two more products: gᵀ x for the matrix and g W for the inputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(..., I), (O, I), (O,) -> (..., O)."""
        ctx.save_for_backward(x, weight)
        return onednn_linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """(..., O) -> (..., I), (O, I), (O,), each None where it is not needed."""
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        rows = grad.reshape(-1, weight.shape[0])  # (N, O)
        of_x = onednn_linear(grad, weight.t()) if for_x else None
        of_weight = onednn_linear(rows.t(), x.reshape(-1, weight.shape[1]).t()) if for_weight else None
        return of_x, of_weight, rows.sum(dim=0) if for_bias else None


@cache
def has_onednn() -> bool:
    """Whether this torch has oneDNN's product, and it gives what torch's own does; tried once, on a small matrix."""
    if not torch.backends.mkldnn.is_available():
        return False
    steps = torch.arange(1.0, 65.0, device="cpu")
    x, weight, bias = steps.sin().reshape(2, 32), torch.outer(steps.cos(), steps[:32].sqrt()), steps
    try:
        found = onednn_linear(x, weight, bias)
    except (AttributeError, RuntimeError, TypeError):  # the operation is internal to torch, and may change
        return False
    expected = F.linear(x, weight, bias)
    return bool((found - expected).abs().max() <= TOLERANCE * expected.abs().max())
