"""bfloat16 or float32: measured on this machine, not assumed; and memory that is kept instead of given back."""

import contextlib
import ctypes
import sys
import time
from collections.abc import Callable

import torch

GAIN = 1.1
"""bfloat16 must be this much faster to be taken."""


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    """The context in which a forward runs: bfloat16 products with float32 weights, or float32 throughout."""
    if precision == "bfloat16":
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()


def faster_precision(step: Callable[[str], object]) -> tuple[str, dict[str, float]]:
    """Whichever of the two runs ``step`` faster, and the seconds each took (the best of three after a warm-up)."""
    best: dict[str, float] = {}
    for precision in ("float32", "bfloat16"):
        times = []
        for _ in range(4):
            start = time.perf_counter()
            step(precision)
            times.append(time.perf_counter() - start)
        best[precision] = min(times[1:])
    return ("bfloat16" if best["float32"] > GAIN * best["bfloat16"] else "float32"), best


def keep_freed_memory() -> None:
    """Ask the C library to keep freed memory for the next tensor, where it is glibc; elsewhere do nothing.

    By default glibc returns every large tensor to the system when it is freed and clears new pages for the next, which
    costs a tenth of a training step on a CPU.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        trim_threshold, mmap_threshold = -1, -3
        mallopt(mmap_threshold, 1 << 30)
        mallopt(trim_threshold, (1 << 31) - 1)
