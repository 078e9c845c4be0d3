"""Where a model computes: on the processor, or on a GPU."""

import os
import re

import torch
from torch import nn

from headway.errors import InputError, shown

PROCESSOR = torch.device("cpu")
NAMES = "auto, cpu, cuda, cuda:N or mps"
"""What ``--device`` can be."""


def device_of(asked: str) -> torch.device:
    """The device that ``--device`` means for this process: auto, cpu, cuda, cuda:N or mps.

    "auto" is a GPU of CUDA where PyTorch finds one, and else the processor; "mps" is the GPU of an Apple computer.  Of
    several GPUs, each process that ``torchrun`` started on this machine has one.  Raises InputError for what is no
    device, where there is no such device, and where there are fewer of them than processes.
    """
    if not isinstance(asked, str) or not re.fullmatch(r"auto|cpu|cuda|cuda:\d{1,4}|mps", asked):
        raise InputError(f"--device is {shown(asked)}; it can be {NAMES}.")
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return PROCESSOR
    if asked == "mps":
        if not torch.backends.mps.is_available():
            raise InputError(_missing("mps"))
        return torch.device("mps")
    if not torch.cuda.is_available():
        raise InputError(_missing("cuda"))
    processes, count = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if ":" in asked:
        number = int(asked.partition(":")[2])
        if processes > 1:
            raise InputError(
                f"--device {asked} names one GPU, and torchrun started {processes} processes here; use --device cuda, "
                "which gives each process its own."
            )
        if number >= count:
            gpus = "1 GPU, cuda:0" if count == 1 else f"{count} GPUs, cuda:0 to cuda:{count - 1}"
            raise InputError(f"--device {asked}: PyTorch finds {gpus}.")
        return torch.device("cuda", number)
    number = int(os.environ.get("LOCAL_RANK", "0"))
    if number >= count:
        raise InputError(
            f"process {number + 1} of this machine finds {count} GPUs; start at most {count} with --nproc_per_node, or "
            "train on processors with --device cpu."
        )
    return torch.device("cuda", number)


def _missing(kind: str) -> str:
    return (
        f"--device {kind}: PyTorch {torch.__version__} finds no GPU here. Leave it out to use the CPU, or "
        "install a build of PyTorch for this GPU and its driver."
    )


def model_device(model: nn.Module) -> torch.device:
    """Where the weights of a model are."""
    weight = next(model.parameters(), None)
    return weight.device if weight is not None else next(model.buffers()).device


def wait_for(device: torch.device) -> None:
    """Wait until a GPU is done with what it was given; a processor always is."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def gpu_name(device: torch.device) -> str | None:
    """What a GPU is called; None for a processor."""
    if device.type == "mps":
        return "Apple GPU"
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None
