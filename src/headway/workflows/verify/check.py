"""What a check is, and what it checks: a model, and samples of random tokens, in texts of very different lengths.

Letters: B batch, T length, S source length, V vocabulary, C classes, D width.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.batches.batching import pad, padded, segments_of
from headway.formats.parity import ordinary
from headway.generation.decode import left_padded
from headway.hub.directory import model_config
from headway.models.device import model_device
from headway.models.transformer import Decoder, EncoderDecoder
from headway.models.wirings import Ensemble
from headway.runtime.windows import frame
from headway.tasks.checks import token_vectors
from headway.tasks.registry import spec, task_named
from headway.tasks.task import Pipeline

LONGEST = 160
"""Tokens: longer than the attention windows of most models, and fast to read."""
ROUNDING, LEAST = 1e-5, 1e-6
"""Allowed difference between two float32 computations: a fraction of the largest answer, and a minimum."""


class DoesNotApply(Exception):
    """The check does not apply to this model, or cannot run here; the message is the reason."""


@dataclass(frozen=True)
class Check:
    """A check and its result."""

    name: str
    what: str
    """what was done, in words"""
    value: float | None = None
    """the largest difference found"""
    bound: float | None = None
    """the largest difference allowed"""
    problem: str | None = None
    """what is wrong, in addition to the value"""
    skipped: str | None = None
    """why the check does not apply to this model, or cannot run here"""
    seconds: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)
    """further keys of ``plain``"""

    @property
    def passed(self) -> bool | None:
        """Whether the check passed; None if it was skipped."""
        if self.skipped is not None:
            return None
        within = self.value is not None and self.bound is not None and self.value <= self.bound  # NaN is not
        return within and self.problem is None

    def plain(self) -> dict[str, Any]:
        plain = {"name": self.name, "passed": self.passed, "value": self.value, "bound": self.bound}
        plain |= {"what": self.what, "seconds": self.seconds, **self.more}
        said = {"problem": self.problem, "skipped": self.skipped}
        return plain | {key: text for key, text in said.items() if text is not None}


def bound_of(largest: float) -> float:
    """The allowed difference between two float32 computations whose largest answer is ``largest``."""
    return max(LEAST, ROUNDING * largest)


def difference(one: Tensor, other: Tensor) -> float:
    """The largest difference between two tensors, NaN if either holds NaN, infinity for different shapes."""
    if one.shape != other.shape:
        return float("inf")
    return float((one.double() - other.double()).abs().max()) if one.numel() else 0.0


def worst(*values: float) -> float:
    """The largest of some differences; NaN counts as the largest."""
    return max(values, key=lambda value: (value != value, value))


class Subject:
    """The model that is checked; an ensemble counts as one ``model``, of which ``one`` is the first."""

    def __init__(self, pipe: Pipeline):
        self.pipe, self.device = pipe, pipe.runtime.device
        self.model: Any = pipe.model
        self.one: Any = pipe.model.members[0] if isinstance(pipe.model, Ensemble) else pipe.model
        self.writes = bool(spec(pipe.task).writes)
        """whether it generates text, token by token"""

    @property
    def longest(self) -> int:
        """The maximum number of input tokens, at most ``LONGEST``."""
        config = self.model.encoder_config if isinstance(self.model, EncoderDecoder) else model_config(self.model)
        return min(config.max_length, LONGEST)

    def inputs(self, lengths: Sequence[int], seed: int = 0) -> list[Any]:
        """``texts``, or for an image model as many random images, float32 (C, H, W) each, of its size."""
        patches = getattr(self.one, "patches", None)
        if patches is None:
            return self.texts(lengths, seed)
        draw = torch.Generator().manual_seed(seed)
        return [torch.randn(patches.channels, *patches.image_size, generator=draw) for _ in lengths]

    def texts(self, lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
        """Ids of so many tokens, with the special tokens that the tokenizer adds unless this is running text."""
        tokenizer: Any = self.pipe.tokenizer
        running = isinstance(self.model, Decoder) and spec(self.pipe.task).writes == "continuations"
        front, back = ([], []) if running else frame(tokenizer)
        draw, known = random.Random(seed), ordinary(tokenizer, token_vectors(self.model))
        rooms = [max(1, length - len(front) - len(back)) for length in lengths]
        return [[*front, *draw.choices(known, k=room), *back] for room in rooms]

    def targets(self, lengths: Sequence[int], seed: int = 1) -> list[list[int]]:
        """Ids that a translator may generate."""
        pipe: Any = self.pipe
        draw, known = random.Random(seed), ordinary(pipe.tokenizer.target, model_config(self.model).vocab_size)
        return [draw.choices(known, k=length) for length in lengths]


def different_lengths(longest: int) -> list[int]:
    """From one token to ``longest``."""
    return [longest, 1, max(1, longest // 3), min(2, longest), max(1, 3 * longest // 4)]


@torch.no_grad()
def read(subject: Subject, model: nn.Module, texts: Sequence[Any], *, left: bool = False) -> list[Tensor]:
    """A model's answers to texts (or images) in one batch, each without its padding.

    Logits (T, V) of every token, or one answer (C,) or (D,) for the text.  An encoder-decoder reads them as sources,
    with targets that depend on the length of each; a model with segments, as two texts of half the length.
    """
    device = model_device(model)
    if isinstance(texts[0], Tensor):
        return list(model(torch.stack(list(texts)).to(device)).float())
    ids, mask = (left_padded if left else padded)(texts, device)
    if isinstance(model, EncoderDecoder):
        longest = model.config.max_length
        targets = [subject.targets([min(1 + len(text) % 13, longest)], seed=len(text))[0] for text in texts]
        answers = model(ids, pad(targets)[0].to(device), mask)
        return [answer[: len(target)].float() for answer, target in zip(answers, targets, strict=True)]
    pair = {}
    if getattr(model_config(subject.one), "segments", 0) > 1:
        pair["segments"] = segments_of([len(text) // 2 for text in texts], ids.shape[1]).to(device)
    answers = task_named(subject.pipe.task).read(subject.pipe, model, ids, mask, **pair)
    if answers.dim() <= 2:
        return list(answers.float())
    return [
        answer[-len(text) :].float() if left else answer[: len(text)].float()
        for answer, text in zip(answers, texts, strict=True)
    ]
