"""Masked language modelling: an encoder that fills in hidden tokens.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.examples import Examples
from headway.hub.directory import model_config
from headway.tasks.common.folder_task import FolderTask
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.tasks.masked_lm.spec import SPEC
from headway.tasks.task import Timed
from headway.text.tokenizer import Tokenizer
from headway.training.objective import Objective


class MaskedLMTask(FolderTask):
    """An encoder with a masked-token head."""

    spec = SPEC
    pipeline_tag = "fill-mask"

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> MaskFiller:
        tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
        return MaskFiller(model, tokenizer, facts.get("plan", {}).get("length"))

    def timed(self, pipe: Any, inputs: Sequence[Any], tokens: int) -> Timed:
        return Timed(pipe, [f"{text} [MASK]" for text in inputs])

    def comparable(self, pipe: Any, inputs: Sequence[Any]) -> list[Any]:
        return [found[0]["token"] for found in pipe(list(inputs), k=1)]  # each has one open place

    def trial(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        from headway.tasks.masked_lm.objective import SameHidden

        batch = Examples(inputs, inputs, TargetKind.TOKEN).together()
        return SameHidden(pipe.mask, pipe.tokenizer.special_ids, pipe.tokenizer.vocab_size), batch


TASK = MaskedLMTask()
