"""How fast models answer, in turn, and how the time of a token of training grows with the length.

Machines are shared, and a minute later everything may take longer: so the models of a comparison are measured one after
the other again and again, and the medians are compared.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from headway.inference.generator import Generator
from headway.inference.load import Pipeline

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


def speeds(pipes: Sequence[Pipeline], texts: Sequence[str]) -> list[dict[str, float]]:
    """How fast each of these models, of one task, answers here: ``latency_ms`` and ``throughput``.

    A classifier: milliseconds for one text, and texts a second of TOGETHER at once.  A language model: milliseconds for
    each token of one text, and tokens a second of TOGETHER texts that are written at once.
    """
    if not pipes:
        return []
    how: dict[str, Any] = {}
    each = 1
    if isinstance(pipes[0], Generator):
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


def token_seconds(model: Any, longest: int = LENGTHS[-1]) -> list[dict[str, float]]:
    """The time that training takes for each token, in sequences of more and more tokens, TOKENS of them at a time.

    Forward and backward pass of the layers, without a head: ``length`` and ``microseconds`` per token.
    """
    stack, found = model.stack, []
    vocab = model.config.vocab_size
    stack.train()
    for length in (n for n in LENGTHS if n <= longest):
        ids = torch.randint(vocab, (max(1, TOKENS // length), length), generator=torch.Generator().manual_seed(0))

        def once(_: int, ids: torch.Tensor = ids) -> None:
            stack(ids).sum().backward()
            stack.zero_grad()

        found.append({"length": length, "microseconds": 1e6 * medians([once], 0.5, 3)[0] / ids.numel()})
    stack.eval()
    return found


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
