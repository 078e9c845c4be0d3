"""The linear layer: torch's, with the product chosen by what is faster."""

from collections.abc import Iterable

from torch import Tensor, nn

from headway.nn.kernels.dispatch import linear


class Linear(nn.Linear):
    """x Wᵀ + b, with torch's parameters and initialisation."""

    def forward(self, x: Tensor, activation: str | None = None) -> Tensor:
        """(..., I) -> (..., O), with an activation by its name if one is given."""
        return linear(x, self.weight, self.bias, activation)


def lay_by_columns(parts: Iterable[nn.Module]) -> None:
    """Lay out in memory by columns the matrices of the linear layers among some modules, in place.

    A matrix that is also a table of vectors too: to gather a vector takes less time than the product saves.
    """
    for part in parts:
        if isinstance(part, nn.Linear) and part.weight.is_contiguous():
            part.weight.data = part.weight.data.t().contiguous().t()
