"""The KV cache changes the speed of generation, and nothing else."""

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
from headway.workflows.verify.uncached import Compared

NAME = "cache"
PROMPTS = (23, 1, 7, 2)
"""Tokens of the prompts, or of the sources."""
NEW, BEAM, LEAVES = 24, 3, 5
"""Maximum new tokens, a translator's beam width, and the step after which the first row leaves the batch."""


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
    model: Any = subject.model
    context = model.config.max_length
    forbidden = sorted(number for number in subject.tokenizer.special_ids if number < subject.rows)
    compared = Compared(model, forbidden)
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
    room = max(1, min(NEW, pipe.longest_target - len(pipe.rules.start)))
    beams(compared, sources, pipe, BEAM, room)
    return compared


def beams(model: Any, sources: Sequence[Sequence[int]], pipe: Any, beam: int, room: int) -> list[tuple[int, ...]]:
    """The best target of each source."""
    starts = [list(pipe.rules.start) for _ in sources]
    how: dict[str, Any] = {"end": pipe.rules.end, "forbidden": pipe.rules.forbidden, "device": pipe.runtime.device}
    found = beam_search(model, starts, beam=beam, max_tokens=room, **how)
    return [one[0].ids for one in found]
