"""How long calls take on this machine, and how much memory they need: what every measurement of speed is made with."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from headway.models.device import PROCESSOR, wait_for

LEAST = 0.02
"""Minimum seconds of one measurement; short calls are repeated."""
REPEATS = 5
"""Measurements of each call, if there is time."""

Call = Callable[[], object]


def seconds(call: Call, device: torch.device = PROCESSOR, least: float | None = None) -> float:
    """Seconds of one call, until the device is done; short calls are repeated for ``least`` seconds (LEAST)."""
    began, times = time.perf_counter(), 0
    while True:
        call()
        wait_for(device)
        times += 1
        passed = time.perf_counter() - began
        if passed >= (LEAST if least is None else least):
            return passed / times


def in_turn(
    calls: Sequence[Call],
    *,
    end: float | None = None,
    rounds: tuple[float, float] = (1, REPEATS),
    times: list[list[float]] | None = None,
    more: int = 1,
    clock: Callable[[Call], float] | None = None,
) -> list[list[float]]:
    """The ``seconds`` of each call, measured in rounds over all of them, so that a slow phase affects all alike.

    ``rounds`` are the fewest and the most; after the fewest, another begins while there is time for ``more`` like it
    until ``end`` of ``time.monotonic``.  ``times`` are those of earlier rounds, which are added to.
    """
    times = [[] for _ in calls] if times is None else times
    fewest, most = rounds
    while calls and (done := len(times[0])) < most:
        another = sum(max(LEAST, taken[0]) for taken in times) if done else 0.0
        if done >= fewest and end is not None and time.monotonic() + more * another >= end:
            break
        for call, taken in zip(calls, times, strict=True):
            taken.append((clock or seconds)(call))
    return times


def peak_bytes(call: Call, device: torch.device = PROCESSOR) -> int:
    """The peak of torch's allocations on the device during a call, minus those before it.

    0 for a device (mps) that does not report it.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    if device != PROCESSOR:
        call()
        return 0
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would write lines to standard error
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        call()
    held = highest = 0
    for event in watched.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    return highest


def summary(times: Sequence[float], peak: int, tokens: int) -> dict[str, Any]:
    """Repeated measurements as entries of a row: ``seconds`` is the median, ``spread`` the minimum and maximum."""
    middle = statistics.median(times)
    found = {"seconds": middle, "spread": [min(times), max(times)], "repeats": len(times)}
    return {**found, "bytes": peak, "tokens_per_second": tokens / middle}
