"""Padding: texts in one padded batch get the same answers as each alone."""

from collections.abc import Sequence
from typing import Any

import torch

from headway.generation.conditional import Conditional
from headway.generation.decode import decode
from headway.generation.sampling import Sampling
from headway.models.transformer import Decoder, EncoderDecoder
from headway.tasks.registry import spec
from headway.workflows.verify.cache import beams
from headway.workflows.verify.check import Check, bound_of, difference, worst
from headway.workflows.verify.samples import Subject, different_lengths, read
from headway.workflows.verify.uncached import Uncached

NAME = "batch"
NEW, LONGEST = 8, 32
"""Maximum tokens written and read: without a cache, all of them are read again for each new one."""


def check_batch(subject: Subject) -> Check:
    """Read texts of 1 to ``samples.LONGEST`` tokens in one padded batch and one by one, and compare the answers.

    Text is generated without the cache, which has its own check.
    """
    lengths = different_lengths(subject.longest)
    texts = subject.inputs(lengths)
    value, largest = 0.0, 0.0
    for left in (False, True) if isinstance(subject.model, Decoder) else (False,):
        together = read(subject, subject.model, texts, left=left)
        for text, answer in zip(texts, together, strict=True):
            alone = read(subject, subject.model, [text])[0]
            value, largest = worst(value, difference(answer, alone)), max(largest, float(alone.abs().max()))
    asked = f"texts of {min(lengths)} to {max(lengths)} tokens"
    asked = "images" if subject.pipe.tokenizer is None else asked
    answers = spec(subject.pipe.task).outputs + (", and greedy generation" if subject.writes else "")
    what = f"{answers}: {len(texts)} {asked} together"
    problem, more = None, {}
    if subject.writes:
        texts = subject.texts(different_lengths(min(LONGEST, subject.longest)))
        more["tokens_equal"] = _write(subject, texts) == [_write(subject, [text])[0] for text in texts]
        problem = None if more["tokens_equal"] else "the generated tokens differ between a batch and each text alone"
    return Check(NAME, f"{what} and one by one", value, bound_of(largest), problem, more=more)


@torch.no_grad()
def _write(subject: Subject, texts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Greedy generation for texts in one batch."""
    pipe: Any = subject.pipe
    if isinstance(subject.model, EncoderDecoder):
        room = max(1, min(NEW, pipe.longest_target - len(pipe.rules.start)))
        return beams(Uncached(Conditional(pipe.model, texts, subject.device)), texts, pipe, 1, room)
    context = pipe.model.config.max_length
    prompts = [text[: max(1, context // 2)] for text in texts]
    found: list[tuple[int, ...]] = [() for _ in texts]
    greedy, device = Sampling(temperature=0), subject.device
    for step in decode(Uncached(pipe.model), prompts, greedy, max_tokens=NEW, context=context, device=device):
        for row, token in step.items():
            found[row] += (token,)
    return found
