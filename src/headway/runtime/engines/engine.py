"""What an engine is: another library that computes what a ``Runtime`` asks of its model.

Letters: B rows, T length, V vocabulary.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from headway.generation.beam import Hypothesis, beam_search
from headway.generation.decode import Model, Steps, decode
from headway.generation.sampling import Sampling
from headway.hub.generation_config import TargetRules


class Lacks(Exception):
    """What an engine was asked for, and does not have; torch does it instead.  The message completes "it does not"."""


@dataclass(frozen=True)
class Writing:
    """How texts are continued, as ``Runtime.write`` is told."""

    sampling: Sampling
    max_tokens: int
    ends: Collection[int] = ()
    forbidden: Sequence[int] = ()
    seed: int | None = None
    context: int = field(default=1 << 31)
    """the tokens that the model reads"""


@dataclass(frozen=True)
class Searching:
    """How targets are searched for, as ``Runtime.search`` is told."""

    rules: TargetRules
    limits: Sequence[int]
    """the tokens that each target may have, its end among them"""
    beam: int = 1
    n_best: int = 1
    length_penalty: float = 1.0


class Engine(Protocol):
    """Computes on the CPU, in float32 tensors; its methods are called by one thread at a time.

    Each method raises ``Lacks`` for what the library does not do with these settings, before it begins.
    """

    name: str
    precision: str

    def output(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        chosen: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """What the model's own ``forward`` gives for ids, mask and segments (B, T), or for images."""

    def write(self, prompts: Sequence[Sequence[int]], how: Writing) -> Steps:
        """New tokens by row, as ``generation.decode`` gives them."""

    def search(self, sources: Sequence[Sequence[int]], how: Searching) -> list[list[Hypothesis]]:
        """The best targets of each source, as ``generation.beam`` gives them."""


AT_ONCE = 32
"""Texts that are continued together."""


def write_by(model: Model, prompts: Sequence[Sequence[int]], how: Writing) -> Steps:
    """Continue prompts by a model whose state can be reordered, ``AT_ONCE`` together, those of like length.

    Raises ValueError for a prompt without tokens.
    """
    order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
    for at in range(0, len(order), AT_ONCE):
        rows = order[at : at + AT_ONCE]
        steps = decode(
            model,
            [prompts[row] for row in rows],
            how.sampling,
            max_tokens=how.max_tokens,
            context=how.context,
            end=how.ends,
            forbidden=how.forbidden,
            seed=how.seed,
        )
        finished: set[int] | None = None
        while True:
            try:
                step = steps.send(finished)
            except StopIteration:
                break
            over = (yield {rows[place]: token for place, token in step.items()}) or set()
            finished = {place for place, row in enumerate(rows) if row in over}


def search_by(
    model_of: Callable[[Sequence[Sequence[int]]], tuple[Model, list[list[int]]]],
    sources: Sequence[Sequence[int]],
    how: Searching,
) -> list[list[Hypothesis]]:
    """Search for the targets of sources, some of like length together.

    ``model_of`` gives, for some sources, the model that writes their targets, and what each target begins with.
    """
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    found: list[list[Hypothesis]] = [[] for _ in sources]
    size = max(1, AT_ONCE // how.beam)
    for at in range(0, len(order), size):
        numbers = order[at : at + size]
        model, prompts = model_of([sources[number] for number in numbers])
        answers = beam_search(
            model,
            prompts,
            beam=how.beam,
            n_best=how.n_best,
            max_tokens=[how.limits[number] for number in numbers],
            end=how.rules.end,
            forbidden=how.rules.forbidden,
            length_penalty=how.length_penalty,
            device=torch.device("cpu"),
        )
        for number, answer in zip(numbers, answers, strict=True):
            found[number] = answer
    return found
