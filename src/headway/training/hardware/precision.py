"""bfloat16 or float32: measured on this machine, or by what it has built in where nothing may be timed."""

import contextlib
import functools
import time

import torch

from headway.models.device import PROCESSOR, wait_for
from headway.nn.kernels.dispatch import linear

GAIN = 1.5
"""Products in bfloat16 must be this much faster to be chosen."""
LEAST_PRODUCTS = 5
"""More than one, as the first product initialises the library, and a busy machine may delay any of them."""
REACHED = {"float32": 0.5, "bfloat16": 0.15}
"""The share of the rate of products that training reaches on a processor.  Where products in bfloat16 are fast, what
lies between them takes most of the time: decoders of widths from 64 to 256 were seen to reach 0.06 to 0.17."""
BUILT_IN = "amx_bf16", "avx512_bf16"
"""Capabilities of processors (``torch.cpu.get_capabilities``) with products in bfloat16 at twice the rate or more."""
LEAST_WIDTH = 64
"""Below this width, conversion costs more than faster products save."""


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    """The context in which a forward runs: bfloat16 products with float32 weights, or float32 throughout.

    Without torch's cache of converted weights, which all threads share: what one finds there is the other's timing.
    """
    if precision == "bfloat16":
        return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)
    return contextlib.nullcontext()


def faster_precision(width: int, device: torch.device = PROCESSOR) -> tuple[str, dict[str, float]]:
    """The precision for training a model of that width, and the rates of products, in FLOP/s, that decide it.

    The products measured are of one fixed size, where devices that compute in bfloat16 are two or more times as fast
    and others many times as slow: so noise does not change the choice, and two runs on a machine agree.
    """
    rates = {kind: product_rate(getattr(torch, kind), device) for kind in ("float32", "bfloat16")}
    faster = width >= LEAST_WIDTH and rates["bfloat16"] > GAIN * rates["float32"]
    return ("bfloat16" if faster else "float32"), rates


def built_in_precision(width: int, device: torch.device = PROCESSOR) -> str:
    """The precision for training a model of that width by steps: bfloat16 where the device has instructions for it."""
    if device.type == "cuda":
        there = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        there = device.type == "cpu" and any(torch.cpu.get_capabilities().get(name) for name in BUILT_IN)
    return "bfloat16" if there and width >= LEAST_WIDTH else "float32"


def training_rate(device: torch.device = PROCESSOR, precision: str | None = None) -> float:
    """Approximate FLOP/s of training, in a precision or in the better of the two."""
    kinds = REACHED if precision is None else [precision]
    shares = REACHED if device.type == "cpu" else dict.fromkeys(REACHED, REACHED["float32"])
    return max(shares[kind] * product_rate(getattr(torch, kind), device) for kind in kinds)


@functools.cache
def product_rate(dtype: torch.dtype, device: torch.device = PROCESSOR, seconds: float = 0.15) -> float:
    """FLOP/s of the product of two matrices of 1024 × 1024, on a GPU of 4096 × 4096; measured once.

    Where a product of 256 × 256 shows that one of those would take longer than ``seconds`` (bfloat16 on a processor
    without it), the small one is the measure.
    """
    large = 1024 if device.type == "cpu" else 4096
    small = _rate(dtype, device, 256, seconds / 10)
    return small if 2 * large**3 / small > seconds else _rate(dtype, device, large, seconds)


def _rate(dtype: torch.dtype, device: torch.device, size: int, seconds: float) -> float:
    """FLOP/s of the fastest of as many products of that size as take ``seconds``, at least LEAST_PRODUCTS."""
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < LEAST_PRODUCTS or time.perf_counter() - began < seconds:
        wait_for(device)
        start = time.perf_counter()
        linear(a, b)
        wait_for(device)
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times)
