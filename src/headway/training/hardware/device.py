"""Where a run computes: on a GPU where PyTorch finds one, otherwise on the processor."""

import os

import torch

from headway.errors import InputError

PROCESSOR = torch.device("cpu")


def device_of(asked: str) -> torch.device:
    """The device that ``--device`` (auto, cpu or cuda) means for this process.

    Of several GPUs, each process that ``torchrun`` started on this machine has one.  Raises InputError where there is
    no such device, or there are fewer of them than processes.
    """
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return PROCESSOR
    if not torch.cuda.is_available():
        raise InputError(
            f"--device cuda: PyTorch {torch.__version__} finds no GPU here. Leave it out to train on the processor, or "
            "install a build of PyTorch for this GPU and its driver."
        )
    number, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= count:
        raise InputError(
            f"process {number + 1} of this machine finds {count} GPUs; start at most {count} with --nproc_per_node, or "
            "train on processors with --device cpu."
        )
    return torch.device("cuda", number)


def wait_for(device: torch.device) -> None:
    """Wait until a GPU is done with what it was given; a processor always is."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def gpu_name(device: torch.device) -> str | None:
    """What a GPU is called; None for a processor."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None
