"""Timing gradients of the first real batches on this machine, before training."""

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack

from torch import nn

from headway.data.batches.batch_source import BatchSource
from headway.data.batches.windows import Position
from headway.models.device import wait_for
from headway.training.hardware.memory import out_of_memory
from headway.training.loop.randomness import random_state, set_random_state
from headway.training.loop.thread_parallel import ThreadParallel
from headway.training.objective import Objective
from headway.training.plan import Plan

ROUNDS = 3
"""Batches that are timed for each number of shares, after one that is not."""


def gradient_seconds(
    model: nn.Module, objective: Objective, batch_source: BatchSource, plan: Plan, counts: Sequence[int], most: float
) -> dict[int, tuple[float, float]]:
    """For each number of shares, the median seconds of a batch's gradient, and the places for tokens in a batch.

    All read the same batches in turn, so that a slow moment affects all alike.  No batch is started after ``most``
    seconds; empty where the first, which is not timed, took as long.  Weights, random state and mode are restored, and
    gradients are cleared.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    device, training = next(model.parameters()).device, model.training
    random, position, began = random_state(device), Position(), time.monotonic()
    times: dict[int, list[float]] = {count: [] for count in counts}
    places: list[int] = []
    with out_of_memory("at the first batch, tried before step 1", plan), ExitStack() as stack:
        ways = {count: stack.enter_context(ThreadParallel(count)) for count in counts}
        try:
            model.train()
            for number in range(1 + ROUNDS):
                if number and time.monotonic() - began > most:
                    break
                batch, position = batch_source.next(position)
                batch = batch.to(device)
                for count, shares in ways.items():
                    wait_for(device)
                    start = time.perf_counter()
                    shares.add_gradient(model, objective, batch, plan.precision, parameters)
                    wait_for(device)
                    if number:
                        times[count].append(time.perf_counter() - start)
                    for p in parameters:
                        p.grad = None
                places += [batch.places] if number else []
        finally:
            for p in parameters:
                p.grad = None
            model.train(training)
            set_random_state(device, random)
    return {count: (statistics.median(taken), statistics.mean(places)) for count, taken in times.items() if taken}
