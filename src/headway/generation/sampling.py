"""How the next token is chosen: greedily, or sampled after filtering.

Letters: B batch, V vocabulary.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.errors import OptionError, shown

COLDEST = 1e-6
"""Below this temperature, divided logits exceed the range of float32."""


@dataclass(frozen=True)
class Sampling:
    """Which tokens may be chosen, and how randomly.  Raises InputError for a value out of range.

    ``temperature`` 0 is greedy.  ``top_k`` keeps the k most probable tokens (0 or -1: all), ``top_p`` of these the
    fewest whose probabilities sum to at least p (Holtzman et al. 2019; 0: the best one), ``min_p`` of these those at
    least p times as probable as the best (Nguyen et al. 2024), in the order of transformers and llama.cpp.
    ``repetition_penalty`` divides the positive logits of tokens that have already occurred and multiplies negative ones
    (Keskar et al. 2019).
    """

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        least, words = 0 if self.temperature == 0 else COLDEST, f"0 for the likeliest token, or from {COLDEST:g} to 100"
        check_number("temperature", self.temperature, least, 100, words)
        check_number("top_k", self.top_k, -1, 1 << 31, "a whole number, 0 or more, or -1 for all", whole=True)
        check_number("top_p", self.top_p, 0, 1, "from 0 to 1")
        check_number("min_p", self.min_p, 0, 1, "from 0 to 1")
        check_number("repetition_penalty", self.repetition_penalty, 0.01, 100, "from 0.01 to 100")


@dataclass(frozen=True)
class Penalties:
    """What is added to logits before a token is chosen, as OpenAI's API defines it.

    ``bias`` is added to the logits of some ids; ``presence`` is taken off each token that has been written, and
    ``frequency`` once for each time that it was.  The prompt does not count.
    """

    bias: tuple[tuple[int, float], ...] = ()
    presence: float = 0.0
    frequency: float = 0.0

    def apply(self, logits: Tensor, written: Sequence[int]) -> None:
        """Change the logits (V,) of one text in place."""
        if self.bias:
            ids, values = zip(*self.bias, strict=True)
            logits[list(ids)] += torch.tensor(values, dtype=logits.dtype, device=logits.device)
        if written and (self.presence or self.frequency):
            ids, counts = zip(*Counter(written).items(), strict=True)
            taken = torch.tensor(counts, dtype=logits.dtype, device=logits.device) * self.frequency + self.presence
            logits[list(ids)] -= taken


@dataclass(frozen=True)
class Likely:
    """How likely the model found a token, before temperature and penalties, and which others it found likeliest."""

    log_probability: float
    others: list[tuple[int, float]]
    """ids and their log-probabilities, best first"""


def new_generator(seed: int | None, device: torch.device | str) -> torch.Generator:
    """The random generator of one text: seeded, or different each time without a seed; never torch's global one."""
    made = torch.Generator(device=device)
    return made.manual_seed(made.seed() if seed is None else seed)


def choose(logits: Tensor, sampling: Sampling, seen: Tensor | None, random: list[torch.Generator | None]) -> Tensor:
    """Choose one token per row: (B, V) -> (B,).

    ``seen`` (B, V) is true for tokens that have already occurred.  Every row samples from its own generator, so that
    its tokens do not depend on the other rows.
    """
    logits = logits.float()
    if sampling.repetition_penalty != 1.0 and seen is not None:
        penalty = sampling.repetition_penalty
        logits = torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)
    if sampling.temperature == 0 and len(logits) == 1 and logits.device.type == "cpu":
        return torch.from_numpy(logits.detach().numpy().argmax(axis=-1))  # torch wakes its threads for one row
    if sampling.temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = allowed(logits / sampling.temperature, sampling).softmax(dim=-1)
    rows = [torch.multinomial(p, 1, generator=g) for p, g in zip(probabilities, random, strict=True)]
    return torch.cat(rows)


def allowed(logits: Tensor, sampling: Sampling) -> Tensor:
    """The logits, with minus infinity for every token that top-k, top-p or min-p excludes: (B, V) -> (B, V).

    The most probable token is always kept.
    """
    if 0 < sampling.top_k < logits.shape[-1]:
        kth = logits.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, -math.inf)
    if sampling.top_p < 1:
        ordered, index = logits.sort(dim=-1, descending=True)
        before = ordered.softmax(dim=-1).cumsum(dim=-1) - ordered.softmax(dim=-1)  # the sum of all more probable tokens
        beyond = before >= sampling.top_p
        beyond[..., 0] = False  # float32 rounds the smallest shares to 0, which would leave nothing to choose
        dropped = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, index, beyond)
        logits = logits.masked_fill(dropped, -math.inf)
    if sampling.min_p > 0:
        best = logits.max(dim=-1, keepdim=True).values
        logits = logits.masked_fill(logits < best + math.log(sampling.min_p), -math.inf)
    return logits


def check_number(name: str, value: object, least: float, most: float, words: str, *, whole: bool = False) -> None:
    """Raise OptionError unless ``value`` is a number from ``least`` to ``most``."""
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        raise OptionError(name, f"is {shown(value)}; it must be {words}.")
