"""The states of the random number generators of training, as tensors; and trials that leave no trace in them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from headway.training.distributed.ranks import Ranks

CPU, GPU = "random", "random.gpu"


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of torch's generator, and of the device's where it has one, by name."""
    found = {CPU: torch.get_rng_state()}
    if device.type == "cuda":
        found[GPU] = torch.cuda.get_rng_state(device)
    return found


def random_states(device: torch.device, ranks: Ranks) -> dict[str, Tensor]:
    """``random_state`` of every rank: the first rank's by its names, those of rank n with n appended."""
    states = enumerate(ranks.gathered(random_state(device)))
    return {_of_rank(name, rank): value for rank, state in states for name, value in state.items()}


def set_random_states(device: torch.device, tensors: dict[str, Tensor], ranks: Ranks) -> None:
    """Restore this rank's part of what ``random_states`` returned; nothing where the run had fewer ranks before."""
    state = {name: tensors[_of_rank(name, ranks.rank)] for name in (CPU, GPU) if _of_rank(name, ranks.rank) in tensors}
    if CPU in state:
        set_random_state(device, state)


def _of_rank(name: str, rank: int) -> str:
    return f"{name}.{rank}" if rank else name


def set_random_state(device: torch.device, state: dict[str, Tensor]) -> None:
    """Restore what ``random_state`` returned.  The state of another kind of device is ignored."""
    torch.set_rng_state(state[CPU])
    if device.type == "cuda" and GPU in state:
        torch.cuda.set_rng_state(state[GPU], device)


@contextmanager
def as_before(model: nn.Module) -> Iterator[torch.device]:
    """After a trial on the model's device: the random state and the mode as before it, and no gradients."""
    device, training = next(model.parameters()).device, model.training
    random = random_state(device)
    try:
        yield device
    finally:
        model.zero_grad()
        model.train(training)
        set_random_state(device, random)
