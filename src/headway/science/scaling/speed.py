"""How many tokens a second a size of model is trained on here: a few steps of some sizes, and what lies between."""

import math
import time
from collections.abc import Callable

import torch

from headway.science.scaling.grid import Shape
from headway.tasks.task import Scaling
from headway.training.hardware.precision import LEAST_WIDTH, faster_precision
from headway.training.loop.thread_parallel import ThreadParallel, share_count
from headway.training.optim.optimizers import optimizers

BATCH = 2048
"""Tokens of a step that is timed."""
STEPS = 6
"""Of each size; the first is not counted."""


def measured_speed(
    measured: list[Shape], vocab_size: int, length: int, precision: str, scaling: Scaling
) -> Callable[[Shape], float]:
    """Tokens a second of any size, by timing training steps of some (smallest first); between them as lines in logs."""
    rates = [step_rate(shape, vocab_size, length, precision, scaling) for shape in measured]
    logs = [(math.log(shape.parameters), math.log(rate)) for shape, rate in zip(measured, rates, strict=True)]

    def speed(shape: Shape) -> float:
        x = math.log(shape.parameters)
        i = next((i for i in range(1, len(logs) - 1) if x <= logs[i][0]), len(logs) - 1)
        (x0, y0), (x1, y1) = logs[i - 1], logs[i]
        return math.exp(y0 + (y1 - y0) * (x - x0) / (x1 - x0))

    return speed


def faster_steps(shape: Shape, vocab_size: int, length: int, scaling: Scaling) -> str:
    """The precision in which whole steps of a size are faster here: of small models, converting may cost more than
    faster products gain.  bfloat16 is not tried where its products are no faster."""
    if faster_precision(LEAST_WIDTH)[0] == "float32":
        return "float32"
    return max(("float32", "bfloat16"), key=lambda precision: step_rate(shape, vocab_size, length, precision, scaling))


def step_rate(shape: Shape, vocab_size: int, length: int, precision: str, scaling: Scaling) -> float:
    """Tokens a second of whole training steps, of the fastest of a few on random tokens."""
    model = scaling.build(scaling.config(vocab_size, shape.width, shape.layers, shape.heads, length))
    ids = torch.randint(vocab_size, (max(1, BATCH // length), length))
    task, batch = scaling.trial(ids, vocab_size)
    parameters = [p for p in model.parameters() if p.requires_grad]
    chosen = optimizers(model, "muon", 1e-3, 0.0, precision=precision)
    times = []
    with ThreadParallel(share_count(model, task, ids.numel())) as shares:
        for _ in range(STEPS):
            began = time.perf_counter()
            shares.add_gradient(model, task, batch, precision, parameters)
            for optimizer in chosen:
                optimizer.step()
                optimizer.zero_grad()
            times.append(time.perf_counter() - began)
    return ids.numel() / min(times[1:])
