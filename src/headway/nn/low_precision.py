"""Linear layers and embeddings whose weights take one or two bytes a number, on a CPU.

They read and give float32, so that the rest of a model stays as it is: only the weights, and the products with them,
have the lower precision.  None has a gradient.

    "bfloat16"   the weights rounded, laid out once as oneDNN reads them fastest
    "int8"       whole numbers from -127 to 127 and a scale for each output (symmetric, by channel); where the processor
                 multiplies whole numbers fast, the rows that are read are rounded too, each by a scale of its own
    "int4"       whole numbers from 0 to 15 with a scale and a zero for each GROUP inputs of an output

Letters: N rows, I inputs, O outputs, V vocabulary, D width.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.activations import ACTIVATIONS
from headway.nn.kernels.products import FUSED, as_table, has_embedding_bags, one_row_of_bytes, onednn_linear

KINDS = ("bfloat16", "int8", "int4")
BYTES: dict[str | None, float] = {"bfloat16": 2, "int8": 1, "int4": 0.75}
"""Bytes of a number, scales included."""
GROUP = 32
"""int4: how many inputs share a scale."""
FEW_ROWS = 16
"""Up to so many rows are multiplied by whole numbers as they are; for more, the matrix is brought to bfloat16 first."""
KEPT_TWICE = range(1 << 18, 1 << 24)
"""int8: how many numbers a matrix has that is kept for one row too; larger ones are read faster by oneDNN."""
FEWEST_OUTPUTS = 16
"""A layer with fewer outputs, such as a classifier's last, stays in float32."""
SMALLEST_TABLE = 1 << 20
"""So does a table of fewer numbers, such as that of positions."""
ROWS_AT_ONCE = 1024
"""int8: so many rows of a matrix are rounded at a time, since what lies between takes twice their memory."""
INT4_OUTPUTS = 64
"""torch's product in int4 needs a multiple of so many outputs."""


class LowPrecisionLinear(nn.Module):
    """x Wᵀ + b with a matrix of lower precision; ``in_features`` and ``out_features`` as torch's layer has them."""

    def __init__(self, in_features: int, out_features: int, bias: Tensor | None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.bias: Tensor | None = None if bias is None else nn.Buffer(bias.detach().float())

    def rows(self, x: Tensor) -> Tensor:
        """(..., I) -> (N, I)."""
        return x.reshape(-1, self.in_features)

    def with_bias(self, y: Tensor) -> Tensor:
        """A product in bfloat16 (N, O) and the bias, in float32."""
        return y.float() if self.bias is None else y + self.bias

    def finished(self, y: Tensor, x: Tensor, activation: str | None) -> Tensor:
        """Rows (N, O) -> (..., O), in the shape of the inputs, and the activation of them where one is named."""
        y = y if activation is None else ACTIVATIONS[activation](y)
        return y if x.dim() == 2 else y.view(*x.shape[:-1], self.out_features)


class BFloat16Linear(LowPrecisionLinear):
    """A matrix in bfloat16, laid out by oneDNN: two to three times as fast for few rows as a plain one."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight.shape[1], weight.shape[0], bias)
        self.bias = None if bias is None else nn.Buffer(bias.detach().to(torch.bfloat16))
        self.laid_out_bytes = 2 * weight.numel()
        self._laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(torch.bfloat16).contiguous())

    def forward(self, x: Tensor, activation: str | None = None) -> Tensor:
        """(..., I) -> (..., O), with an activation by its name if one is given."""
        fused = activation if activation in FUSED else None
        y = onednn_linear(x.to(torch.bfloat16), self._laid_out, self.bias, fused).to(x.dtype)
        return y if activation is None or fused else ACTIVATIONS[activation](y)


class Int8Linear(LowPrecisionLinear):
    """A matrix of whole numbers int8 (O, I) with a scale for each output (O,)."""

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None):
        super().__init__(weight.shape[1], weight.shape[0], bias)
        self.weight, self.scale = nn.Buffer(weight), nn.Buffer(scale.to(torch.bfloat16))

    def forward(self, x: Tensor, activation: str | None = None) -> Tensor:
        """(..., I) -> (..., O), with an activation by its name if one is given."""
        rows = self.rows(x).to(torch.bfloat16)
        if len(rows) <= FEW_ROWS:
            y = torch._weight_int8pack_mm(rows, self.weight, self.scale)
        else:
            y = F.linear(rows, self.weight.to(torch.bfloat16)) * self.scale
        return self.finished(self.with_bias(y), x, activation)


class Int8DynamicLinear(LowPrecisionLinear):
    """The same matrix, and each row that is read, rounded to whole numbers with its own scale.

    A text that is continued alone is one row, which is multiplied as it is (``nn.kernels.products``): from the first
    one on, a large matrix is kept in memory a second time, as that product reads it.
    """

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None):
        super().__init__(weight.shape[1], weight.shape[0], bias)
        self.laid_out_bytes = weight.numel()
        self._laid_out = laid_out(weight)
        self._table: Tensor | None = None
        self.takes_one_row = weight.numel() in KEPT_TWICE and has_embedding_bags()
        self.scale, self.no_zeros = nn.Buffer(scale), nn.Buffer(torch.zeros(len(scale), dtype=torch.int32))

    def forward(self, x: Tensor, activation: str | None = None) -> Tensor:
        """(..., I) -> (..., O), with an activation by its name if one is given."""
        if self.takes_one_row and x.dim() == 3 and x.numel() == self.in_features:  # a text that is continued
            if self._table is None:
                self._table = as_table(self._laid_out.to_dense())
                self.laid_out_bytes += self._table.numel()
            y = one_row_of_bytes(x, self._table)
            y = y.mul_(self.scale) if self.bias is None else torch.addcmul(self.bias, y, self.scale)
            return y if activation is None else ACTIVATIONS[activation](y)
        numbers, scales = rounded_rows(self.rows(x))
        y = int8_product(numbers, self._laid_out, self.scale, self.no_zeros)
        y = y.mul_(scales) if self.bias is None else torch.addcmul(self.bias, y, scales)
        return self.finished(y, x, activation)


class Int4Linear(LowPrecisionLinear):
    """A matrix of whole numbers from 0 to 15, two in a byte, with a scale and a zero for each GROUP of them."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight.shape[1], weight.shape[0], bias)
        numbers, scales = int4_groups(weight.detach().float())
        self.packed = nn.Buffer(torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1))
        self.scales = nn.Buffer(scales.to(torch.bfloat16))  # (I / GROUP, O, 2)

    def forward(self, x: Tensor, activation: str | None = None) -> Tensor:
        """(..., I) -> (..., O), with an activation by its name if one is given."""
        rows = self.rows(x).to(torch.bfloat16)
        y = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.packed, GROUP, self.scales)
        return self.finished(self.with_bias(y), x, activation)


class LowPrecisionEmbedding(nn.Module):
    """A table of vectors: in bfloat16, or in int8 with a scale for each vector.  It gives float32."""

    def __init__(self, weight: Tensor, scale: Tensor | None = None):
        super().__init__()
        self.weight = nn.Buffer(weight)
        self.scale: Tensor | None = None if scale is None else nn.Buffer(scale.to(torch.bfloat16))

    def forward(self, ids: Tensor) -> Tensor:
        """(...) int -> (..., D)."""
        vectors = F.embedding(ids, self.weight).float()
        return vectors if self.scale is None else vectors * self.scale[ids].float().unsqueeze(-1)


def int8_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix (O, I) as int8 (O, I) and the scale of each row (O,): the row's greatest number is 127 of its scale."""
    scale = weight.detach().float().abs().amax(dim=1).clamp(min=1e-12) / 127
    scale = scale.to(torch.bfloat16).float()  # as it is kept, so that the numbers are rounded for that
    numbers = torch.empty(weight.shape, dtype=torch.int8)
    for at in range(0, len(weight), ROWS_AT_ONCE):
        part = slice(at, at + ROWS_AT_ONCE)
        numbers[part] = (weight.detach()[part] / scale[part, None]).round_().clamp_(-127, 127)
    return numbers, scale


def int4_groups(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix (O, I) as int32 (O, I) from 0 to 15, and for each group its scale and zero (I / GROUP, O, 2).

    The value of a number n is (n - 8) · scale + zero, as torch's product has it.
    """
    groups = weight.unflatten(1, (-1, GROUP))  # (O, I / GROUP, GROUP)
    low, high = groups.amin(dim=2), groups.amax(dim=2)
    scale = ((high - low).clamp(min=1e-9) / 15).to(torch.bfloat16).float()
    zero = (low + 8 * scale).to(torch.bfloat16).float()
    numbers = ((groups - zero[..., None]) / scale[..., None] + 8).round().clamp(0, 15).to(torch.int32)
    return numbers.flatten(1).contiguous(), torch.stack([scale, zero], dim=-1).transpose(0, 1).contiguous()


def takes_int4(weight: Tensor) -> bool:
    """Whether torch's product in int4 takes a matrix of this shape (O, I)."""
    return weight.shape[0] % INT4_OUTPUTS == 0 and weight.shape[1] % GROUP == 0


def lower(model: nn.Module, precision: str) -> None:
    """Bring the matrices and tables of a model to one of KINDS, in place, one after the other (``Lowering``)."""
    Lowering(model, precision).lower(list(model.modules()))


class Lowering:
    """Brings the matrices and tables of a model to a precision, as soon as their weights are there.

    Small ones stay as they are.  In int4 a matrix that is also a table of vectors, and one whose shape torch's product
    does not take, is in
    """

    def __init__(self, model: nn.Module, precision: str):
        if precision not in KINDS:
            raise ValueError(f"precision {precision!r} is not one of {', '.join(KINDS)}")
        self.precision = precision
        self.parents: dict[int, list[tuple[nn.Module, str]]] = {}
        self.sharing: dict[int, list[nn.Module]] = {}  # those that have the weight of a module, itself among them
        owners: dict[int, list[nn.Module]] = {}
        for parent in model.modules():
            for name, part in parent.named_children():
                self.parents.setdefault(id(part), []).append((parent, name))
            if isinstance(parent, nn.Linear | nn.Embedding):
                owners.setdefault(id(parent.weight), []).append(parent)
        for group in owners.values():
            self.sharing |= {id(part): group for part in group}

    def lower(self, parts: Iterable[nn.Module]) -> None:
        """Replace those of the given modules that are large, have all their weights, and share none that is missing."""
        for part in parts:
            group = self.sharing.pop(id(part), [])
            if any(weight.is_meta for one in group for weight in one.parameters()):
                self.sharing[id(part)] = group
                continue
            made: list[tuple[Tensor, Tensor]] = []  # the int8 numbers and scales of the weight that they share
            for one in group:
                self.sharing.pop(id(one), None)
                if (new := self._made(one, group, made)) is not None:
                    for parent, name in self.parents[id(one)]:
                        setattr(parent, name, new)

    def _made(self, part: Any, group: list[nn.Module], made: list[tuple[Tensor, Tensor]]) -> nn.Module | None:
        """What takes the place of a layer or a table; None where it stays."""
        table, weight = isinstance(part, nn.Embedding), part.weight
        if weight.numel() < SMALLEST_TABLE if table else len(weight) < FEWEST_OUTPUTS:
            return None
        if self.precision == "bfloat16":
            rounded = weight.detach().to(torch.bfloat16)
            return LowPrecisionEmbedding(rounded) if table else BFloat16Linear(rounded, part.bias)
        if self.precision == "int4" and takes_int4(weight) and not any(isinstance(one, nn.Embedding) for one in group):
            return Int4Linear(weight, part.bias)
        if not made:
            made.append(int8_rows(weight))
        if table:
            return LowPrecisionEmbedding(*made[0])
        return (Int8DynamicLinear if int8_is_usable() else Int8Linear)(*made[0], part.bias)


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
def int8_is_usable() -> bool:
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
