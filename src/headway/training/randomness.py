"""The state of the random numbers that training draws, as tensors."""

import torch
from torch import Tensor

CPU, GPU = "random", "random.gpu"


def random_state(device: torch.device) -> dict[str, Tensor]:
    """By name, the state of torch's generator, and of the device's own where it has one."""
    found = {CPU: torch.get_rng_state()}
    if device.type == "cuda":
        found[GPU] = torch.cuda.get_rng_state(device)
    return found


def set_random_state(device: torch.device, state: dict[str, Tensor]) -> None:
    """Put back what ``random_state`` gave.  What another kind of device left is ignored."""
    torch.set_rng_state(state[CPU])
    if device.type == "cuda" and GPU in state:
        torch.cuda.set_rng_state(state[GPU], device)
