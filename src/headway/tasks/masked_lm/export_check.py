"""Another program that fills open places chooses the same tokens."""

from typing import Any

import torch

from headway.tasks.common.compare_answers import Found, Original, differs, worst
from headway.tasks.common.external_loader import pipeline_loader


@torch.no_grad()
def fillings(original: Original, theirs: Any) -> Found:
    """The five likeliest tokens for the open place of each text, and their probabilities."""
    pipe, value = original.pipe, 0.0
    mask = theirs.tokenizer.mask_token
    for text in original.texts:
        ids = pipe.ids_of(f"{text} {mask}")
        place = len(ids) - 1 - ids[::-1].index(pipe.mask)
        ours = original.model(torch.tensor([ids]))[0, place].float().softmax(dim=-1)  # (V,)
        found = theirs(f"{text} {mask}", top_k=5)
        best = ours.topk(len(found)).values
        value = worst(value, best - torch.tensor([one["score"] for one in found]))
        value = worst(value, best - torch.tensor([float(ours[one["token"]]) for one in found]))
    return value, differs("fills an open place with other tokens", value)


LOADER = pipeline_loader("fill-mask", fillings)
