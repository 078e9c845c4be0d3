"""Dropout (Srivastava et al. 2014)."""

from torch import Tensor, nn

from headway.nn.kernels.dispatch import dropout


class Dropout(nn.Module):
    """In training, zero entries with probability ``p`` and divide the others by 1 - p; otherwise the identity."""

    def __init__(self, p: float):
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout is {p}; it must be from 0 to below 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"
