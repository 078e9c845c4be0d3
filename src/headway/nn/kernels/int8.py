"""x Wᵀ in whole numbers of 8 bits on a CPU, by oneDNN: the sums are exact, and only the two inputs are rounded.

The matrix is rounded once, with a scale for each output, and each row of x when it comes, with a scale of its own
("dynamic quantisation"), so that no row depends on another.  A processor with VNNI multiplies four such numbers where
it multiplies one in float32 or two in bfloat16.

Letters: N rows, I inputs, O outputs.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

ZERO = 128
"""The byte that stands for zero in x: oneDNN takes x without a sign, and the matrix with one."""
LARGEST = 127
TINY = 1e-30


def rounded_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (N, I) as bytes, uint8 (N, I), and their scales (N, 1): x is about (byte - ZERO) · scale."""
    scale = x.abs().amax(dim=1, keepdim=True).clamp_(min=TINY).div_(LARGEST)
    numbers = (x / scale).round_().to(torch.int8)
    return numbers.view(torch.uint8).bitwise_xor_(ZERO), scale  # two's complement and an offset differ in the first bit


def laid_out(weight: Tensor) -> Tensor:
    """A matrix int8 (O, I) as ``int8_product`` takes it, which no other operation reads."""
    return torch.ops.onednn.qlinear_prepack(weight, None)


def int8_product(numbers: Tensor, weight: Tensor, weight_scale: Tensor, no_zeros: Tensor) -> Tensor:
    """Bytes (N, I) by a matrix that ``laid_out`` gave, times the scale of each output (O,) -> float32 (N, O).

    ``no_zeros`` is int32 (O,) of zeros, which oneDNN asks for.  The scales of the rows are left to the caller.
    """
    more: Any = (None, 1.0, 0, torch.float32, "none", [], "")  # no bias, float32 out, nothing after the product
    return torch.ops.onednn.qlinear_pointwise(numbers, 1.0, ZERO, weight, weight_scale, no_zeros, *more)


@cache
def is_usable() -> bool:
    """Whether this processor multiplies such numbers fast, and this torch gives the exact sums; tried once."""
    steps = torch.arange(32 * 64)
    weight = (steps * 37 % 255 - 127).to(torch.int8).view(32, 64)
    numbers = (steps[: 3 * 64] * 91 % 256).to(torch.uint8).view(3, 64)
    expected = (numbers.long() - ZERO) @ weight.t().long()
    try:
        if not (torch.backends.mkldnn.is_available() and torch.cpu._is_vnni_supported()):
            return False
        sums = int8_product(numbers, laid_out(weight), torch.ones(32), torch.zeros(32, dtype=torch.int32))
    except (AttributeError, RuntimeError, TypeError):  # both are internal to torch and may change
        return False
    return torch.equal(sums.long(), expected)
