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

from headway.data.batches import Batch
from headway.tasks.language_modeling.pipeline import Generator
from headway.training.loop.thread_parallel import Shares

TOGETHER = 32
"""Texts that are answered at once, where throughput is measured."""
WRITTEN = 64
"""Tokens that a language model writes for each, there and for its latency."""
PROMPT = 40
"""Characters of a text that it goes on from."""
SECONDS = 3.0
"""How long each of the two is measured, for each model, at least ROUNDS times."""
ROUNDS = 5
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
TOKENS = 4096
"""Tokens of a batch, whatever its length, where the time of a token is measured."""


def speeds(pipes: Sequence[Any], texts: Sequence[str]) -> list[dict[str, float]]:
    """How fast each of these models, of one task, answers here: ``latency_ms`` and ``throughput``.

    A classifier: milliseconds for one text, and texts a second of TOGETHER at once.  A language model: milliseconds for
    each token of one text, and tokens a second of TOGETHER texts that are written at once.
    """
    if not pipes:
        return []
    how: dict[str, Any] = {}
    each = 1
    if isinstance(pipes[0], Generator):
        pipes = [Generator(pipe.model, pipe.tokenizer) for pipe in pipes]
        for pipe in pipes:
            pipe.ends = frozenset()  # all write as many tokens
        how, each = {"max_tokens": WRITTEN, "temperature": 1.0, "seed": 0}, WRITTEN
        texts = [text[:PROMPT] or "a" for text in texts]
    many = [texts[i % len(texts)] for i in range(TOGETHER)]

    def one(pipe: Any) -> Callable[[int], Any]:
        return lambda number: pipe(texts[number % len(texts)], **how)

    def together(pipe: Any) -> Callable[[int], Any]:
        return lambda _: pipe(many, **how)

    longest = SECONDS * len(pipes)
    latencies = medians([one(pipe) for pipe in pipes], longest, ROUNDS)
    times = medians([together(pipe) for pipe in pipes], longest, ROUNDS)
    return [
        {"latency_ms": 1e3 * latency / each, "throughput": each * TOGETHER / seconds}
        for latency, seconds in zip(latencies, times, strict=True)
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
        """A number to go back from."""
        return stack(batch.ids).sum(), batch.ids.numel()


def _pass(stack: Any, plan: dict[str, Any], length: int) -> Callable[[int], None]:
    vocab = stack.config.vocab_size
    ids = torch.randint(vocab, (max(1, TOKENS // length), length), generator=torch.Generator().manual_seed(0))
    parameters = [p for p in stack.parameters() if p.requires_grad]
    task: Any = _Sum()

    def once(_: int) -> None:
        stack.train()
        with Shares(plan["shares"]) as shares:
            shares.add_gradient(stack, task, Batch(ids, None, ids), plan["precision"], parameters)
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
