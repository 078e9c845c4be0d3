"""Another program that fills open places chooses the same tokens."""

from typing import Any

import torch

from headway.tasks.common.door_answers import Asked, Found, differs, worst
from headway.tasks.common.doors import pipeline_door


@torch.no_grad()
def fillings(asked: Asked, theirs: Any) -> Found:
    """The five likeliest tokens for the open place of each text, and their probabilities."""
    pipe, value = asked.pipe, 0.0
    mask = theirs.tokenizer.mask_token
    for text in asked.texts:
        ids = pipe.ids_of(f"{text} {mask}")
        place = len(ids) - 1 - ids[::-1].index(pipe.mask)
        ours = asked.model(torch.tensor([ids]))[0, place].float().softmax(dim=-1)  # (V,)
        found = theirs(f"{text} {mask}", top_k=5)
        best = ours.topk(len(found)).values
        value = worst(value, best - torch.tensor([one["score"] for one in found]))
        value = worst(value, best - torch.tensor([float(ours[one["token"]]) for one in found]))
    return value, differs("fills an open place with other tokens", value)


DOOR = pipeline_door("fill-mask", fillings)
