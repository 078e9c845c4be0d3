"""The linear layer: torch's, with the product chosen by what is faster."""

from torch import Tensor, nn

from headway.nn.kernels.dispatch import linear


class Linear(nn.Linear):
    """x Wᵀ + b, with torch's parameters and initialisation."""

    def forward(self, x: Tensor, activation: str | None = None) -> Tensor:
        """(..., I) -> (..., O), with an activation by its name if one is given."""
        return linear(x, self.weight, self.bias, activation)
