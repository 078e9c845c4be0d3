"""Another program that tags texts gives every token the same tag with the same probability."""

from typing import Any

import torch

from headway.tasks.common.compare_answers import BOUND, Found, Original, worst
from headway.tasks.common.external_loader import pipeline_loader


@torch.no_grad()
def tags(original: Original, theirs: Any) -> Found:
    """The likeliest tag of every token but special ones, and its probability."""
    pipe, value, problem = original.pipe, 0.0, None
    special = pipe.tokenizer.special_ids - {pipe.tokenizer.unknown}
    for text in original.texts:
        ids = pipe.tokenizer.encode(text, special=True)
        kept = [place for place, number in enumerate(ids) if number not in special]
        ours = original.model(torch.tensor([ids]))[0].float().softmax(dim=-1)[kept]  # (N, C)
        found = theirs(text, ignore_labels=[], aggregation_strategy="none")
        if len(found) != len(kept):
            return value, f"it tags {len(found)} tokens of {text[:60]!r}, expected {len(kept)}"
        numbers = [pipe.labels.index(one["entity"]) for one in found]
        scores = ours.gather(1, torch.tensor(numbers)[:, None])[:, 0]
        value = worst(value, scores - torch.tensor([float(one["score"]) for one in found]))
        if float((ours.max(dim=-1).values - scores).max()) > BOUND:
            problem = problem or f"it gives tokens of {text[:60]!r} other tags"
    return value, problem


LOADER = pipeline_loader("token-classification", tags, aggregation_strategy="first")
