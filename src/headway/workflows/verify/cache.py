"""The cache of keys and values changes the speed of writing, and nothing else."""

from collections.abc import Sequence
from typing import Any

import torch

from headway.generation.beam import beam_search
from headway.generation.conditional import Conditional
from headway.generation.decode import decode
from headway.generation.sampling import Sampling
from headway.models.transformer import EncoderDecoder
from headway.workflows.verify.check import Check, bound_of
from headway.workflows.verify.samples import Subject
from headway.workflows.verify.uncached import Beside

NAME = "cache"
PROMPTS = (23, 1, 7, 2)
"""Tokens of the prompts, or of the sources."""
NEW, BEAM, LEAVES = 24, 3, 5
"""Tokens that are written at most, the width of a translator's beam, and the step after which the first row leaves."""


def check_cache(subject: Subject) -> Check:
    """Write with the cache, greedily or with a beam, and compare each step's logits with those of reading all anew."""
    what = "logits with the cache and without, at each step of writing"
    if not subject.writes:
        return Check(NAME, what, skipped="the model writes no text")
    beside = _translate(subject) if isinstance(subject.model, EncoderDecoder) else _continue(subject)
    problem = None if beside.tokens_equal else "other tokens are chosen with the cache than without"
    more = {"tokens": beside.tokens, "tokens_equal": beside.tokens_equal}
    return Check(NAME, what, beside.difference, bound_of(beside.largest), problem, more=more)


def _continue(subject: Subject) -> Beside:
    """Prompts of different lengths continued together; one of them leaves while the others go on."""
    model: Any = subject.model
    context = model.config.max_length
    forbidden = sorted(number for number in subject.tokenizer.special_ids if number < subject.rows)
    beside = Beside(model, forbidden)
    texts = subject.texts([min(length, max(1, context // 2)) for length in PROMPTS])
    how: dict[str, Any] = {"max_tokens": NEW, "context": context, "forbidden": forbidden}
    steps = decode(beside, texts, Sampling(temperature=0), **how, device=subject.device)
    step: Any = next(steps)
    for count in range(1, NEW):
        try:
            step = steps.send({0} if count == LEAVES and 0 in step else set())
        except StopIteration:
            break
    return beside


@torch.no_grad()
def _translate(subject: Subject) -> Beside:
    """Sources of different lengths, with a beam, whose hypotheses change places at every step."""
    pipe: Any = subject.pipe
    sources = subject.texts([min(length, subject.longest) for length in PROMPTS])
    beside = Beside(Conditional(pipe.model, sources, subject.device), pipe.rules.forbidden)
    room = max(1, min(NEW, pipe.longest_target - len(pipe.rules.start)))
    beams(beside, sources, pipe, BEAM, room)
    return beside


def beams(model: Any, sources: Sequence[Sequence[int]], pipe: Any, beam: int, room: int) -> list[tuple[int, ...]]:
    """The best target of each source."""
    starts = [list(pipe.rules.start) for _ in sources]
    how: dict[str, Any] = {"end": pipe.rules.end, "forbidden": pipe.rules.forbidden, "device": pipe.runtime.device}
    found = beam_search(model, starts, beam=beam, max_tokens=room, **how)
    return [one[0].ids for one in found]
