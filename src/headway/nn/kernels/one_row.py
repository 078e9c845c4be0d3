"""x Wᵀ for one row on a CPU, by torch's embedding bags: the sum of the matrix's columns, each times a number of x.

A text that is continued alone multiplies every matrix by one row, which takes as long as the matrix takes to be read.
An embedding bag reads a table of vectors almost as fast as memory allows, 1.3 times as fast as oneDNN reads a layer
(benchmarks/results/one-row.json).  A matrix whose columns lie in memory one after the other is such a table.

Letters: I inputs, O outputs, P parts: each thread sums a part of the inputs, and their sums are added at the end.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.kernels.products import TOLERANCE


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
