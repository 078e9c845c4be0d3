"""torch's global settings during a public call: those of a new process, and the caller's own after it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def plain_defaults() -> Iterator[None]:
    """Within the context, new tensors are float32 and the caller's autocast is off."""
    with ExitStack() as stack:
        if (dtype := torch.get_default_dtype()) != torch.float32:
            stack.callback(torch.set_default_dtype, dtype)
            torch.set_default_dtype(torch.float32)
        for kind in filter(torch.is_autocast_enabled, ("cpu", "cuda", "mps")):
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


@contextmanager
def isolated() -> Iterator[None]:
    """As ``plain_defaults``, on the processor by default, with gradients; generators start from one seed.

    Random generators and the number of threads are the caller's again after it.
    """
    n_gpus = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    seed, threads = torch.initial_seed(), torch.get_num_threads()
    with plain_defaults(), torch.inference_mode(False), torch.enable_grad(), ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(range(n_gpus)))
        stack.callback(torch.set_num_threads, threads)
        if not n_gpus:
            stack.callback(torch.cuda.manual_seed_all, seed)  # for when the caller first uses a GPU
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        torch.manual_seed(0)
        yield
