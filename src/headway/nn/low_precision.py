"""Linear layers and embeddings whose weights take one or two bytes a number, on a CPU.

They read and give float32, so that the rest of a model stays as it is: only the weights, and the products with them,
have the lower precision.  None has a gradient.

    "bfloat16"   the weights rounded, laid out once as oneDNN reads them fastest
    "int8"       whole numbers from -127 to 127 and a scale for each output (symmetric, by channel)
    "int4"       whole numbers from 0 to 15 with a scale and a zero for each GROUP inputs of an output

Letters: N rows, I inputs, O outputs, V vocabulary, D width.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.activations import ACTIVATIONS
from headway.nn.kernels.linear import FUSED, onednn_linear

GROUP = 32
"""int4: how many inputs share a scale."""
FEW_ROWS = 16
"""Up to so many rows are multiplied by whole numbers as they are; for more, the matrix is brought to bfloat16 first."""
FEWEST_OUTPUTS = 16
"""A layer with fewer outputs, such as a classifier's last, stays in float32."""
SMALLEST_TABLE = 1 << 20
"""So does a table of fewer numbers, such as that of positions."""
INT4_OUTPUTS = 64
"""torch's product in int4 needs a multiple of so many outputs."""


class LowPrecisionLinear(nn.Module):
    """x Wᵀ + b with a matrix of lower precision; ``in_features`` and ``out_features`` as torch's layer has them."""

    def __init__(self, in_features: int, out_features: int, bias: Tensor | None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.bias: Tensor | None
        self.register_buffer("bias", None if bias is None else bias.detach().float())

    def product(self, rows: Tensor) -> Tensor:
        """Rows in bfloat16 (N, I) -> (N, O), in bfloat16, without the bias."""
        raise NotImplementedError

    def forward(self, x: Tensor, activation: str | None = None) -> Tensor:
        """(..., I) -> (..., O), with an activation by its name if one is given."""
        y = self.product(x.reshape(-1, self.in_features).to(torch.bfloat16)).to(x.dtype)
        y = y if self.bias is None else y + self.bias
        y = y if activation is None else ACTIVATIONS[activation](y)
        return y if x.dim() == 2 else y.view(*x.shape[:-1], self.out_features)


class BFloat16Linear(LowPrecisionLinear):
    """A matrix in bfloat16, laid out by oneDNN: two to three times as fast for few rows as a plain one."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight.shape[1], weight.shape[0], bias)
        self.bias = None if bias is None else bias.detach().to(torch.bfloat16)
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
        self.weight: Tensor
        self.scale: Tensor
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.to(torch.bfloat16))

    def product(self, rows: Tensor) -> Tensor:
        if len(rows) <= FEW_ROWS:
            return torch._weight_int8pack_mm(rows, self.weight, self.scale)
        return F.linear(rows, self.weight.to(torch.bfloat16)) * self.scale


class Int4Linear(LowPrecisionLinear):
    """A matrix of whole numbers from 0 to 15, two in a byte, with a scale and a zero for each GROUP of them."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight.shape[1], weight.shape[0], bias)
        numbers, scales = int4_groups(weight.detach().float())
        self.packed: Tensor
        self.scales: Tensor
        self.register_buffer("packed", torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1))
        self.register_buffer("scales", scales.to(torch.bfloat16))  # (I / GROUP, O, 2)

    def product(self, rows: Tensor) -> Tensor:
        found: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.packed, GROUP, self.scales)
        return found


class LowPrecisionEmbedding(nn.Module):
    """A table of vectors: in bfloat16, or in int8 with a scale for each vector.  It gives float32."""

    def __init__(self, weight: Tensor, scale: Tensor | None = None):
        super().__init__()
        self.weight: Tensor
        self.scale: Tensor | None
        self.register_buffer("weight", weight)
        self.register_buffer("scale", None if scale is None else scale.to(torch.bfloat16))

    def forward(self, ids: Tensor) -> Tensor:
        """(...) int -> (..., D)."""
        vectors = F.embedding(ids, self.weight).float()
        return vectors if self.scale is None else vectors * self.scale[ids].float().unsqueeze(-1)


def int8_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix (O, I) as int8 (O, I) and the scale of each row (O,): the row's greatest number is 127 of its scale."""
    scale = weight.detach().float().abs().amax(dim=1).clamp(min=1e-12) / 127
    scale = scale.to(torch.bfloat16).float()  # as it is kept, so that the numbers are rounded for that
    return (weight.detach() / scale[:, None]).round().clamp(-127, 127).to(torch.int8).contiguous(), scale


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
    """Bring the matrices and tables of a model to "bfloat16", "int8" or "int4", in place, one after the other.

    Small ones stay as they are.  A matrix that is also a table of vectors is one tensor in int8 as well; in int4 such a
    matrix, and one whose shape torch's product does not take, is in int8.
    """
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    made: dict[int, tuple[Tensor, Tensor]] = {}

    def int8_of(weight: Tensor) -> tuple[Tensor, Tensor]:
        if id(weight) not in made:
            made[id(weight)] = int8_rows(weight)
        return made[id(weight)]

    def linear(layer: Any) -> nn.Module:
        if precision == "bfloat16":
            return BFloat16Linear(layer.weight, layer.bias)
        if precision == "int4" and id(layer.weight) not in tables and takes_int4(layer.weight):
            return Int4Linear(layer.weight, layer.bias)
        return Int8Linear(*int8_of(layer.weight), layer.bias)

    def table(part: Any) -> nn.Module:
        if precision == "bfloat16":
            return LowPrecisionEmbedding(part.weight.detach().to(torch.bfloat16))
        return LowPrecisionEmbedding(*int8_of(part.weight))

    for kind, least, make in ((nn.Linear, FEWEST_OUTPUTS, linear), (nn.Embedding, SMALLEST_TABLE, table)):
        done: dict[int, nn.Module] = {}  # a module in several places stays one
        for parent in list(model.modules()):
            for name, part in list(parent.named_children()):
                if isinstance(part, kind) and (len(part.weight) if kind is nn.Linear else part.weight.numel()) >= least:
                    done[id(part)] = done.get(id(part)) or make(part)
                    setattr(parent, name, done[id(part)])
