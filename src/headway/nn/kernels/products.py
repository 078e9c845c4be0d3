"""x Wᵀ + b in float32 on a CPU: by "torch", which calls MKL, or by "onednn"; and which of the two.

For few rows MKL uses one thread, whatever the processor; oneDNN shares the rows of the matrix among the threads, and
reads it as fast as memory allows.  On a processor with AVX-512 that is not Intel's, MKL computes with AVX2 and oneDNN
with AVX-512, so that every product is twice as fast (benchmarks/results/products.json).  The faster of the two is found
once in a process.  They differ in the last bit, so a run records which it was trained with, and goes on with that.

Letters: N rows, I inputs, O outputs.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

AUTO, TORCH, ONEDNN = KINDS = "auto", "torch", "onednn"
GAIN = 1.5
"""How many times as fast oneDNN's product must be to be chosen.  Processors where it is faster show about 2 and the
others about 1, so that noise does not change the choice, and two processes on a machine agree."""
SIZE, ROUNDS = 512, 8
"""The product that is timed is of two square matrices of that size, so many times each, in turn."""
TOLERANCE = 1e-5
"""The greatest relative difference from torch's product with which oneDNN's is used."""

FUSED = {"relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh"), "tanh": ("tanh", "")}
"""The activations that oneDNN computes while it writes a product, and its names for them."""
KEPT = {"LRU_CACHE_CAPACITY": "16", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "640"}
"""How many products torch and oneDNN keep prepared, unless the user says it.  Else each keeps 1,024, both the same
ones, of about 0.3 MB for each shape of a batch in bfloat16 (benchmarks/results/sklearn_memory.json)."""
for _name, _count in KEPT.items():
    os.environ.setdefault(_name, _count)  # read when the first product is computed

_chosen = AUTO


def onednn_everywhere() -> bool:
    """Whether oneDNN computes all large products, and not only those for few rows."""
    return (_chosen if _chosen != AUTO else faster()[0]) == ONEDNN


@contextmanager
def products_by(name: str) -> Iterator[None]:
    """Choose "torch" or "onednn" for this process, for a time; "auto" is the faster.  Raises ValueError for others.

    oneDNN where there is none is "torch".
    """
    global _chosen
    if name not in KINDS:
        raise ValueError(f"products by {name!r}: it must be one of {', '.join(KINDS)}")
    before, _chosen = _chosen, TORCH if name == ONEDNN and not has_onednn() else name
    try:
        yield
    finally:
        _chosen = before


@cache
def faster() -> tuple[str, dict[str, float]]:
    """The faster of the two on this machine, and the FLOP/s of each that decided it."""
    if not has_onednn():
        return TORCH, {}
    a, b = torch.ones(SIZE, SIZE, device="cpu"), torch.ones(SIZE, SIZE, device="cpu")
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        seconds = _least({TORCH: lambda: F.linear(a, b), ONEDNN: lambda: onednn_linear(a, b)})
    rates = {name: 2 * SIZE**3 / each for name, each in seconds.items()}
    return (ONEDNN if rates[ONEDNN] > GAIN * rates[TORCH] else TORCH), rates


def _least(products: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The seconds of the fastest call of each, after one that is not timed; in turn, so that a busy moment hits all."""
    seconds = dict.fromkeys(products, float("inf"))
    for number in range(1 + ROUNDS):
        for name, product in products.items():
            began = time.perf_counter()
            product()
            if number:
                seconds[name] = min(seconds[name], time.perf_counter() - began)
    return seconds


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
        y = onednn_linear(x, weight, bias)
    except (AttributeError, RuntimeError, TypeError):  # the operation is internal to torch, and may change
        return False
    expected = F.linear(x, weight, bias)
    return bool((y - expected).abs().max() <= TOLERANCE * expected.abs().max())


def one_row(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ without a gradient: (..., I) of one row, (O, I) that lies in memory by columns -> (..., O)."""
    places, starts = parts_of(weight.shape[1], torch.get_num_threads())
    sums = torch.embedding_bag(weight.t(), places, starts, False, 0, False, x.reshape(-1))[0]  # (P, O); 0 is "sum"
    return sums.sum(dim=0).view(*x.shape[:-1], len(weight))


def one_row_of_bytes(x: Tensor, table: Tensor) -> Tensor:
    """The same with a matrix of whole numbers that ``as_table`` laid out: (..., I) of one row -> (..., O)."""
    places, starts = parts_of(len(table), torch.get_num_threads())
    bags = torch.ops.quantized.embedding_bag_byte_rowwise_offsets
    sums: Tensor = bags(table, places, starts, False, 0, False, x.reshape(-1), None, False)  # (P, O); 0 is "sum"
    return sums.sum(dim=0).view(*x.shape[:-1], -1)


def as_table(columns: Tensor) -> Tensor:
    """Columns int8 (I, O) of a matrix as an embedding bag takes them, uint8 (I, O + 8).

    A byte b at the front stands for b - 128: the eight bytes at the end are the factor 1 and the term -128.
    """
    ends = torch.tensor([1.0, -128.0]).view(torch.uint8).expand(len(columns), 8)
    return torch.cat([columns.view(torch.uint8) ^ 128, ends], dim=1)


@cache
def parts_of(inputs: int, parts: int) -> tuple[Tensor, Tensor]:
    """The places 0 to I - 1, int32 (I,), and where each part of them starts, int32 (P,)."""
    places = torch.arange(inputs, dtype=torch.int32, device="cpu")
    return places, places[:: -(-inputs // parts)].contiguous()


def is_by_columns(weight: Tensor) -> bool:
    """Whether a matrix (O, I) lies in memory by columns, one after the other."""
    return weight.stride() == (1, weight.shape[0])


@cache
def has_embedding_bags() -> bool:
    """Whether this torch's embedding bags give the product; tried once, on a small matrix."""
    steps = torch.arange(1, 65, device="cpu")
    x, weight = steps[:32].sin(), (torch.outer(steps, steps[:32]) * 37 % 255 - 127).t().contiguous().t()
    expected = F.linear(x, weight.float())
    try:
        with torch.no_grad():
            products = one_row(x, weight.float()), one_row_of_bytes(x, as_table(weight.to(torch.int8).t()))
    except (AttributeError, RuntimeError, TypeError):  # that of bytes is internal to torch, and may change
        return False
    return all(bool((one - expected).abs().max() <= TOLERANCE * expected.abs().max()) for one in products)
