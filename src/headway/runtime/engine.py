"""What an engine is: another library that computes what a ``Runtime`` asks of its model.

Letters: B rows, T length, V vocabulary.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.generation.beam import Hypothesis, beam_search
from headway.generation.decode import Model, Steps, decode
from headway.generation.sampling import Sampling
from headway.hub.generation_config import TargetRules
from headway.models.heads import Gives, gives


class Lacks(Exception):
    """What an engine was asked for, and does not have; torch does it instead.  The message completes "it does not"."""


@dataclass(frozen=True)
class Writing:
    """How texts are continued: what ``generation.decode`` is told, with one device for all engines."""

    sampling: Sampling
    max_tokens: int
    end: Collection[int] = ()
    forbidden: Sequence[int] = ()
    seed: int | None = None
    context: int = 1 << 31
    """the tokens that the model reads"""

    def by(self, model: Model, prompts: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> Steps:
        """New tokens by row, as ``generation.decode`` writes them by a model."""
        return decode(model, prompts, device=device, **vars(self))


@dataclass(frozen=True)
class Searching:
    """How targets are searched for, as ``Runtime.search`` is told."""

    rules: TargetRules
    limits: Sequence[int]
    """the tokens that each target may have, its end among them"""
    beam: int = 1
    n_best: int = 1
    length_penalty: float = 1.0

    def by(
        self, model: Model, prompts: list[list[int]], numbers: Iterable[int], device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The best targets of the sources with these numbers, as ``generation.beam`` finds them by a model."""
        return beam_search(
            model,
            prompts,
            beam=self.beam,
            n_best=self.n_best,
            max_tokens=[self.limits[number] for number in numbers],
            end=self.rules.end,
            forbidden=self.rules.forbidden,
            length_penalty=self.length_penalty,
            device=device,
        )


TORCH = "torch"
"""What computes where no engine does."""
LOGITS, OF_TOKENS, OF_TEXT = "logits", "last_hidden_state", "sentence_embedding"
"""The names of outputs: numbers by a head, the vectors of tokens, the vector of a text."""


def unpadded(ids: Tensor, mask: Tensor | None) -> list[list[int]]:
    """The tokens of each row of ids (B, T)."""
    return ids.tolist() if mask is None else [row[real].tolist() for row, real in zip(ids, mask, strict=True)]


class Inputs(NamedTuple):
    """What a model reads: ids, their mask and segments (B, T), or images; the targets (B, T') of such sources."""

    ids: Tensor
    mask: Tensor | None = None
    segments: Tensor | None = None
    targets: Tensor | None = None

    @property
    def rows(self) -> list[list[int]]:
        """The tokens of each row, without padding."""
        return unpadded(self.ids, self.mask)

    def at_tokens(self, rows: Iterable[Tensor], width: int) -> Tensor:
        """Numbers of the tokens of each row, (T or more, width), where those are: (B, T, width), 0 at padding."""
        found = torch.zeros(*self.ids.shape, width)
        mask = torch.ones(self.ids.shape, dtype=torch.bool) if self.mask is None else self.mask
        for place, real, numbers in zip(found, mask, rows, strict=True):
            place[real] = numbers[: int(real.sum())]
        return found


class Engine:
    """Computes on the CPU, in float32 tensors; its methods are called by one thread at a time.

    Each method raises ``Lacks`` for what the library does not do with these settings, before it begins; so does one
    that an engine does not have.
    """

    def __init__(self, name: str, precision: str, model: Any):
        self.name, self.precision, self.model = name, precision, model
        self.result = {Gives.HIDDEN: OF_TOKENS, Gives.VECTOR: OF_TEXT}.get(gives(model), LOGITS)
        """the name of what the model's own ``forward`` gives"""

    def outputs(self, inputs: Inputs) -> dict[str, Tensor]:
        """All outputs by name, ``result`` among them."""
        raise Lacks("give outputs for whole texts")

    def output(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        chosen: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """What the model's own ``forward`` gives; with ``chosen``, bool (B, T), for only those N places, (N, V)."""
        output = self.outputs(Inputs(ids, mask, segments))[self.result]
        return output if chosen is None else output[chosen]

    def write(self, prompts: Sequence[Sequence[int]], how: Writing) -> Steps:
        """New tokens by row, as ``generation.decode`` gives them."""
        raise Lacks("continue texts by this model")

    def search(self, sources: Sequence[Sequence[int]], how: Searching) -> list[list[Hypothesis]]:
        """The best targets of each source, as ``generation.beam`` gives them."""
        raise Lacks("search for targets by this model")


class StateModel:
    """A model as ``generation`` writes by it, made of its empty state.

    A state has ``following(ids, mask)``, the logits (B, V) of what follows more tokens of its rows, (B, T) with padding
    on the left, and ``reorder(rows)``.
    """

    def __init__(self, new_state: Callable[[], Any]):
        self.new_state = new_state

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """(B, T) -> (B, V)."""
        return (state or self.new_state()).following(ids, mask)


AT_ONCE = 32
"""Texts that are continued together."""


def write_by(new_state: Callable[[], Any], prompts: Sequence[Sequence[int]], how: Writing) -> Steps:
    """Continue prompts by a model with such states (``StateModel``), ``AT_ONCE`` together, those of like length.

    Raises ValueError for a prompt without tokens.
    """
    order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
    for at in range(0, len(order), AT_ONCE):
        rows = order[at : at + AT_ONCE]
        steps = how.by(StateModel(new_state), [prompts[row] for row in rows])
        finished: set[int] | None = None
        while True:
            try:
                step = steps.send(finished)
            except StopIteration:
                break
            over = (yield {rows[place]: token for place, token in step.items()}) or set()
            finished = {place for place, row in enumerate(rows) if row in over}


def search_by(
    begin: Callable[[Sequence[Sequence[int]]], tuple[Callable[[], Any], list[list[int]]]],
    sources: Sequence[Sequence[int]],
    how: Searching,
) -> list[list[Hypothesis]]:
    """Search for the targets of sources, some of like length together.

    ``begin`` gives, for some sources, an empty state (``StateModel``) of their targets, and what each begins with.
    """
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    targets: list[list[Hypothesis]] = [[] for _ in sources]
    size = max(1, AT_ONCE // how.beam)
    for at in range(0, len(order), size):
        numbers = order[at : at + size]
        new_state, prompts = begin([sources[number] for number in numbers])
        for number, answer in zip(numbers, how.by(StateModel(new_state), prompts, numbers), strict=True):
            targets[number] = answer
    return targets
