"""Which library multiplies matrices in float32 on a CPU: "torch", what torch itself calls, or "onednn".

The faster of the two is found once in a process.  They differ in the last bit, so a run records which it was trained
with, and goes on with that.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
import torch.nn.functional as F

from headway.nn.kernels.linear import has_onednn, onednn_linear

AUTO, TORCH, ONEDNN = KINDS = "auto", "torch", "onednn"
GAIN = 1.5
"""How many times as fast oneDNN's product must be to be chosen.  Processors where it is faster show about 2 and the
others about 1, so that noise does not change the choice, and two processes on a machine agree."""
SIZE, ROUNDS = 512, 8
"""The product that is timed is of two square matrices of that size, so many times each, in turn."""

KEPT = {"LRU_CACHE_CAPACITY": "16", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "640"}
"""How many products torch and oneDNN keep prepared, unless the user says it.  Else each keeps 1,024, both the same
ones, of about 0.3 MB for each shape of a batch in bfloat16 (benchmarks/results/sklearn_memory.json)."""
for _name, _count in KEPT.items():
    os.environ.setdefault(_name, _count)  # read when the first product is computed

_chosen = AUTO


def onednn_everywhere() -> bool:
    """Whether oneDNN computes all large products, and not only those for few rows."""
    return (_chosen if _chosen != AUTO else faster()[0]) == ONEDNN


@contextmanager
def products_by(name: str) -> Iterator[None]:
    """Choose "torch" or "onednn" for this process, for a time; "auto" is the faster.  Raises ValueError for others.

    oneDNN where there is none is "torch".
    """
    global _chosen
    if name not in KINDS:
        raise ValueError(f"products by {name!r}: it must be one of {', '.join(KINDS)}")
    before, _chosen = _chosen, TORCH if name == ONEDNN and not has_onednn() else name
    try:
        yield
    finally:
        _chosen = before


@cache
def faster() -> tuple[str, dict[str, float]]:
    """The faster of the two on this machine, and the FLOP/s of each that decided it."""
    if not has_onednn():
        return TORCH, {}
    a, b = torch.ones(SIZE, SIZE, device="cpu"), torch.ones(SIZE, SIZE, device="cpu")
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        seconds = _least({TORCH: lambda: F.linear(a, b), ONEDNN: lambda: onednn_linear(a, b)})
    rates = {name: 2 * SIZE**3 / each for name, each in seconds.items()}
    return (ONEDNN if rates[ONEDNN] > GAIN * rates[TORCH] else TORCH), rates


def _least(products: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The seconds of the fastest call of each, after one that is not timed; in turn, so that a busy moment hits all."""
    seconds = dict.fromkeys(products, float("inf"))
    for number in range(1 + ROUNDS):
        for name, product in products.items():
            began = time.perf_counter()
            product()
            if number:
                seconds[name] = min(seconds[name], time.perf_counter() - began)
    return seconds
