"""Masked language modelling: an encoder that fills in hidden tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from headway.data.batches.batching import Batch, Examples, TargetKind
from headway.formats.hf.loaders import Original, pipeline_loader
from headway.formats.parity import worst
from headway.tasks.checks import Found, differs
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.tasks.masked_lm.spec import SPEC
from headway.tasks.readers import tokenizer_of
from headway.tasks.task import FolderTask, Timed
from headway.training.objective import Objective


@torch.no_grad()
def fillings(original: Original, theirs: Any) -> Found:
    """The five likeliest tokens for the open place of each text, and their probabilities."""
    pipe, value = original.pipe, 0.0
    mask = theirs.tokenizer.mask_token
    for text in original.texts:
        ids = pipe.ids_of(f"{text} {mask}")
        place = len(ids) - 1 - ids[::-1].index(pipe.mask)
        ours = original.model(torch.tensor([ids]))[0, place].float().softmax(dim=-1)  # (V,)
        likeliest = theirs(f"{text} {mask}", top_k=5)
        best = ours.topk(len(likeliest)).values
        value = worst(value, best - torch.tensor([one["score"] for one in likeliest]))
        value = worst(value, best - torch.tensor([float(ours[one["token"]]) for one in likeliest]))
    return value, differs("fills an open place with other tokens", value)


class MaskedLMTask(FolderTask):
    """An encoder with a masked-token head."""

    spec = SPEC
    pipeline_tag = "fill-mask"
    loader = pipeline_loader(pipeline_tag, fillings)

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> MaskFiller:
        return MaskFiller(model, tokenizer_of(model, directory), facts.get("plan", {}).get("length"))

    def timed(self, pipe: Any, inputs: Sequence[Any], tokens: int) -> Timed:
        return Timed(pipe, [f"{text} [MASK]" for text in inputs])

    def normalize_answers(self, pipe: Any, inputs: Sequence[Any]) -> list[Any]:
        return [places[0]["token"] for places in pipe(list(inputs), k=1)]  # each has one open place

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        from headway.tasks.masked_lm.objective import SameHidden

        batch = Examples(inputs, inputs, TargetKind.TOKEN).together()
        return SameHidden(pipe.mask, pipe.tokenizer.special_ids, pipe.tokenizer.vocab_size), batch


TASK = MaskedLMTask()
