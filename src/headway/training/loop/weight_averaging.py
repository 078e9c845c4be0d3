"""A running average of the weights."""

import torch
from torch import Tensor, nn


class WeightAverage:
    """average ← decay × average + (1 - decay) × trained weights after every step (Polyak; the exponential kind).

    Early on, the decay is smaller - (1 + n) / (10 + n) after n steps - so that the first weights lose their influence.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.values = {name: p.detach().clone() for name, p in self.parameters.items()}
        self.steps = 0

    @torch.no_grad()
    def update(self) -> None:
        """Add the model's weights to the average."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(list(self.values.values()), [p.detach() for p in self.parameters.values()], 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Swap the model's weights and the average: before and after an evaluation."""
        for name, p in self.parameters.items():
            mine = p.detach().clone()
            p.copy_(self.values[name])
            self.values[name] = mine

    def state(self) -> dict[str, Tensor]:
        """The averaged weights by name."""
        return self.values
