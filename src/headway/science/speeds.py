"""How fast models answer, in turn, and how the time of a token of training grows with the length.

Machines are shared, and a minute later everything may take longer: so the models of a comparison are measured one after
the other again and again, and the medians are compared.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch, TargetKind
from headway.tasks.registry import task_named
from headway.tasks.task import Timed
from headway.training.loop.thread_parallel import ThreadParallel

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


def speeds(pipes: Sequence[Any], texts: Sequence[str]) -> list[dict[str, float]]:
    """How fast each of these models, of one task, answers here: ``latency_ms`` and ``throughput``.

    Milliseconds for one text, and texts a second of TOGETHER at once; of what goes on from a text, milliseconds for
    each token, and tokens a second.
    """
    if not pipes:
        return []
    timed = [task_named(pipe.task).timed(pipe, texts, WRITTEN) for pipe in pipes]

    def one(asked: Timed) -> Callable[[int], Any]:
        return lambda number: asked.answer(asked.inputs[number % len(asked.inputs)])

    def together(asked: Timed) -> Callable[[int], Any]:
        many = [asked.inputs[i % len(asked.inputs)] for i in range(TOGETHER)]
        return lambda _: asked.answer(many)

    longest = SECONDS * len(pipes)
    latencies = medians([one(asked) for asked in timed], longest, ROUNDS)
    times = medians([together(asked) for asked in timed], longest, ROUNDS)
    return [
        {"latency_ms": 1e3 * latency / asked.each, "throughput": asked.each * TOGETHER / seconds}
        for asked, latency, seconds in zip(timed, latencies, times, strict=True)
    ]


def token_seconds(stacks: Sequence[Any], plans: Sequence[dict[str, Any]], reaches: Sequence[int]) -> list[list[dict]]:
    """The time that training takes for each token, in sequences of more and more tokens, TOKENS of them at a time.

    Forward and backward pass of the layers, without a head, in the precision and the threads of each one's plan, up to
    the length that each can read: for each stack ``length`` and ``microseconds`` per token.
    """
    found: list[list[dict]] = [[] for _ in stacks]
    for length in LENGTHS:
        able = [number for number, reach in enumerate(reaches) if length <= reach]
        runs = [_pass(stacks[number], plans[number], length) for number in able]
        for number, seconds in zip(able, medians(runs, 0.5 * len(runs), 3), strict=True):
            tokens = max(1, TOKENS // length) * length
            found[number].append({"length": length, "microseconds": 1e6 * seconds / tokens})
    return found


class _Sum:
    """A task whose loss is the sum of what a stack gives."""

    def loss(self, stack: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        return stack(batch.ids).sum(), batch.ids.numel()


def _pass(stack: Any, plan: dict[str, Any], length: int) -> Callable[[int], None]:
    vocab = stack.config.vocab_size
    ids = torch.randint(vocab, (max(1, TOKENS // length), length), generator=torch.Generator().manual_seed(0))
    parameters = [p for p in stack.parameters() if p.requires_grad]
    task: Any = _Sum()
    batch = Batch({"ids": ids}, None, ids, TargetKind.TOKEN)

    def once(_: int) -> None:
        stack.train()
        with ThreadParallel(plan["shares"]) as shares:
            shares.add_gradient(stack, task, batch, plan["precision"], parameters)
        stack.zero_grad()
        stack.eval()

    return once


def medians(runs: Sequence[Callable[[int], Any]], seconds: float, rounds: int) -> list[float]:
    """The median time of each of these calls, in seconds; all are called in turn, with the number of the round.

    There are ``rounds`` at least, and more until ``seconds`` are over.  The first round does not count.
    """
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run(0)
    ended = time.perf_counter() + seconds
    number = 0
    while number < rounds or time.perf_counter() < ended:
        for run, taken in zip(runs, times, strict=True):
            began = time.perf_counter()
            run(number)
            taken.append(time.perf_counter() - began)
        number += 1
    return [statistics.median(taken) for taken in times]
