"""The position-wise feed-forward layer, plain (Vaswani et al. 2017, 3.3) or gated (Shazeer 2020: SwiGLU, GEGLU)."""

from torch import Tensor, nn

from headway.nn.activations import ACTIVATIONS
from headway.nn.dropout import Dropout
from headway.nn.kernels.dispatch import gated
from headway.nn.linear import Linear


class FeedForward(nn.Module):
    """out(activation(up(x))), or with ``gated`` out(activation(gate(x)) * up(x)); each position by itself.

    The gate and ``up`` are one matrix: its first half is the gate.
    """

    def __init__(self, d_model: int, d_ff: int, *, activation: str, gated: bool, bias: bool, dropout: float = 0.0):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation {activation!r} is not one of {', '.join(ACTIVATIONS)}")
        self.activation = activation
        self.gated = gated
        self.up = Linear(d_model, 2 * d_ff if gated else d_ff, bias=bias)
        self.dropout = Dropout(dropout)
        self.out = Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        if not self.gated:
            return self.out(self.dropout(self.up(x, self.activation)))
        return self.out(self.dropout(gated(self.up(x), self.activation)))  # of (B, T, 2 F)
