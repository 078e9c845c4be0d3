"""The KV cache changes the speed of generation, and nothing else.

Letters: B batch, T length, V vocabulary.
"""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from headway.data.batches.batching import sent
from headway.generation.beam import beam_search
from headway.generation.decode import Conditional, decode
from headway.generation.sampling import Sampling
from headway.models.transformer import EncoderDecoder
from headway.tasks.checks import token_vectors
from headway.workflows.verify.check import Check, Subject, bound_of, difference, worst

NAME = "cache"
PROMPTS = (23, 1, 7, 2)
"""Tokens of the prompts, or of the sources."""
NEW, BEAM, LEAVES = 24, 3, 5
"""Maximum new tokens, a translator's beam width, and the step after which the first row leaves the batch."""
TIE = 1e-5
"""Two tokens whose logits are this close count as equally likely: rounding decides between them."""


class Read:
    """Everything read so far: the ids of each row (B, T), which of them are tokens, and the row's original index.

    ``cached`` is the state of the model that reads the same with its cache, if there is one.
    """

    def __init__(self, cached: Any = None) -> None:
        self.ids = self.mask = self.rows = torch.empty(0, dtype=torch.int64)
        self.cached = cached

    def extend(self, ids: Tensor, mask: Tensor | None) -> None:
        """Append (B, T) ids."""
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        if self.ids.numel():
            ids, mask = torch.cat([self.ids, ids], dim=1), torch.cat([self.mask, mask], dim=1)
        else:
            self.rows = torch.arange(len(ids), device=ids.device)
        self.ids, self.mask = ids, mask

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows, in that order."""
        self.ids, self.mask, self.rows = self.ids[rows], self.mask[rows], self.rows[rows]
        if self.cached is not None:
            self.cached.reorder(rows)


class Uncached:
    """A decoder, or an encoder-decoder with its sources, without its cache: ``generation`` takes it as a model."""

    def __init__(self, model: Any):
        self.model = model

    def new_state(self) -> Read:
        return Read()

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """Logits (B, V) of the next token of each row, from everything read so far."""
        state.extend(ids, mask)
        seen = None if bool(state.mask.all()) else state.mask
        if not isinstance(self.model, Conditional):
            return self.model.next_logits(state.ids, seen)
        pair = self.model
        across = None if pair.source_mask is None else pair.source_mask[state.rows]
        return pair.model.next_logits(state.ids, pair.source[state.rows], across, None, seen)


class Compared(Uncached):
    """A model with its cache, whose every answer is compared with the same model without."""

    def __init__(self, model: Any, forbidden: Collection[int] = ()):
        super().__init__(model)
        self.forbidden = list(forbidden)
        self.difference, self.largest = 0.0, 0.0
        self.tokens, self.tokens_equal = 0, True

    def new_state(self) -> Read:
        return Read(self.model.new_state())

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """Logits (B, V) with the cache."""
        logits = self.model.next_logits(ids, mask, state.cached)
        expected = super().next_logits(ids, mask, state)
        self.difference = worst(self.difference, difference(logits, expected))
        self.largest = max(self.largest, float(expected.abs().max()))
        self.tokens += len(logits)
        self.tokens_equal = self.tokens_equal and self._same_tokens(logits, expected)
        return logits

    def _same_tokens(self, logits: Tensor, expected: Tensor) -> bool:
        """Whether the most likely token of each row is the same, or equally likely up to rounding."""
        never = sent(self.forbidden, logits.device)
        logits, expected = (tensor.index_fill(1, never, float("-inf")) for tensor in (logits.float(), expected.float()))
        chosen, best = logits.argmax(dim=-1, keepdim=True), expected.amax(dim=-1, keepdim=True)
        return bool((expected.gather(1, chosen) >= best - TIE).all())


def check_cache(subject: Subject) -> Check:
    """Generate with the cache, greedily or with a beam, and compare each step's logits with those without it."""
    what = "logits with the cache and without, at each step of generation"
    if not subject.writes:
        return Check(NAME, what, skipped="the model writes no text")
    compared = _translate(subject) if isinstance(subject.model, EncoderDecoder) else _continue(subject)
    problem = None if compared.tokens_equal else "the generated tokens differ with the cache and without"
    more = {"tokens": compared.tokens, "tokens_equal": compared.tokens_equal}
    return Check(NAME, what, compared.difference, bound_of(compared.largest), problem, more=more)


def _continue(subject: Subject) -> Compared:
    """Continue prompts of different lengths in one batch; one of them leaves it early."""
    context, rows = subject.model.config.max_length, token_vectors(subject.model)
    forbidden = sorted(number for number in subject.pipe.tokenizer.special_ids if number < rows)
    compared = Compared(subject.model, forbidden)
    texts = subject.texts([min(length, max(1, context // 2)) for length in PROMPTS])
    how: dict[str, Any] = {"max_tokens": NEW, "context": context, "forbidden": forbidden}
    steps = decode(compared, texts, Sampling(temperature=0), **how, device=subject.device)
    step: Any = next(steps)
    for count in range(1, NEW):
        try:
            step = steps.send({0} if count == LEAVES and 0 in step else set())
        except StopIteration:
            break
    return compared


@torch.no_grad()
def _translate(subject: Subject) -> Compared:
    """Translate sources of different lengths by beam search, which reorders the hypotheses at every step."""
    pipe: Any = subject.pipe
    sources = subject.texts([min(length, subject.longest) for length in PROMPTS])
    compared = Compared(Conditional(pipe.model, sources, subject.device), pipe.rules.forbidden)
    beams(compared, sources, pipe, BEAM, NEW)
    return compared


def beams(model: Any, sources: Sequence[Sequence[int]], pipe: Any, beam: int, most: int) -> list[tuple[int, ...]]:
    """The best target of each source, of at most so many tokens."""
    rules, room = pipe.rules, max(1, min(most, pipe.longest_target - len(pipe.rules.start)))
    how: dict[str, Any] = {"end": rules.end, "forbidden": rules.forbidden, "device": pipe.runtime.device}
    hypotheses = beam_search(model, [list(rules.start) for _ in sources], beam=beam, max_tokens=room, **how)
    return [best.ids for best, *_ in hypotheses]
