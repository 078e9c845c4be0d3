"""How fast models answer and train, and how the time of a token grows with the length: all models in turn."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch, TargetKind
from headway.science.long_texts import reach_of
from headway.science.scaling.grid import Shape
from headway.tasks.registry import task_named
from headway.tasks.task import Scaling, Timed
from headway.training.hardware.precision import LEAST_WIDTH, faster_precision
from headway.training.loop.thread_parallel import ThreadParallel, share_count
from headway.training.optimizers import optimizers
from headway.workflows import timing

TOGETHER = 32
"""Texts that are answered at once, where throughput is measured."""
WRITTEN = 64
"""Tokens that a language model writes for each, there and for its latency."""
SECONDS = 3.0
"""How long each of the two is measured, for each model, at least ROUNDS times."""
ROUNDS = 5
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
TOKENS = 4096
"""Tokens of a batch, whatever its length, where the time of a token is measured."""
BATCH = 2048
"""Tokens of a step that is timed."""
STEPS = 6
"""Of each size; the first is not counted."""


def speeds(pipes: Sequence[Any], texts: Sequence[str]) -> list[dict[str, float]]:
    """How fast each of these models, of one task, answers here: ``latency_ms`` and ``throughput``.

    Milliseconds for one text, and texts a second of TOGETHER at once; of what goes on from a text, milliseconds for
    each token, and tokens a second.
    """
    timed = [task_named(pipe.task).timed(pipe, texts, WRITTEN) for pipe in pipes]
    one = [_each_in_turn(asked) for asked in timed]
    many = [partial(asked.answer, list(islice(cycle(asked.inputs), TOGETHER))) for asked in timed]
    latencies, times = (medians(calls, SECONDS * len(pipes), ROUNDS) for calls in (one, many))
    return [
        {"latency_ms": 1e3 * latency / asked.each, "throughput": asked.each * TOGETHER / seconds}
        for asked, latency, seconds in zip(timed, latencies, times, strict=True)
    ]


def _each_in_turn(asked: Timed) -> Callable[[], Any]:
    """Answers one input, each time another."""
    inputs = cycle(asked.inputs)
    return lambda: asked.answer(next(inputs))


def token_seconds(models: Sequence[Any], plans: Sequence[dict[str, Any]]) -> list[list[dict[str, float]]]:
    """The time that training takes for each token, in sequences of more and more tokens, TOKENS of them at a time.

    Forward and backward pass of the layers, without a head, in the precision and the threads of each one's plan, up to
    the length that each can read: for each model ``length`` and ``microseconds`` per token.  Only of Transformers of
    texts, whose sequences may be of any length.
    """
    times: list[list[dict[str, float]]] = [[] for _ in models]
    stacked = [at for at, model in enumerate(models) if hasattr(model, "stack") and not getattr(model, "patches", None)]
    for length in LENGTHS:
        able = [at for at in stacked if length <= reach_of(models[at])]
        passes = [_pass(models[at].stack, plans[at], length) for at in able]
        for at, seconds in zip(able, medians(passes, 0.5 * len(passes), 3), strict=True):
            tokens = max(1, TOKENS // length) * length
            times[at].append({"length": length, "microseconds": 1e6 * seconds / tokens})
    return times


class _Sum:
    """A task whose loss is the sum of what a stack gives."""

    def loss(self, stack: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        return stack(batch.ids).sum(), batch.ids.numel()


def _pass(stack: Any, plan: dict[str, Any], length: int) -> Callable[[], None]:
    """A forward and backward pass over random tokens."""
    vocab = stack.config.vocab_size
    ids = torch.randint(vocab, (max(1, TOKENS // length), length), generator=torch.Generator().manual_seed(0))
    parameters = [p for p in stack.parameters() if p.requires_grad]
    task: Any = _Sum()
    batch = Batch({"ids": ids}, None, ids, TargetKind.TOKEN)

    def once() -> None:
        stack.train()
        with ThreadParallel(plan["shares"]) as shares:
            shares.add_gradient(stack, task, batch, plan["precision"], parameters)
        stack.zero_grad()
        stack.eval()

    return once


def medians(calls: Sequence[Callable[[], Any]], seconds: float, rounds: int) -> list[float]:
    """The median time of each of these calls, in seconds; all are made in turn.

    There are ``rounds`` at least, and more until ``seconds`` are over.  The first round does not count.
    """
    for call in calls:
        call()
    clock, end = partial(timing.seconds, least=0.0), time.monotonic() + seconds
    times = timing.in_turn(calls, end=end, rounds=(rounds, math.inf), clock=clock)
    return [statistics.median(taken) for taken in times]


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
