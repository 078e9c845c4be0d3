"""Vectors of texts: an encoder whose tokens are pooled.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from headway.hub.directory import model_config
from headway.models.heads import Gives, gives
from headway.tasks.common.external_loader import ExternalLoader
from headway.tasks.common.folder_task import FolderTask
from headway.tasks.common.material import Material, MaterialInputs
from headway.tasks.embedding.pipeline import Embedder
from headway.tasks.embedding.spec import SPEC
from headway.text.tokenizer import Tokenizer


class EmbeddingTask(FolderTask):
    """An encoder that gives one vector for each text."""

    spec = SPEC
    pipeline_tag = "sentence-similarity"

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Embedder:
        tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
        return Embedder(model, tokenizer, facts.get("plan", {}).get("length"))

    def external_loader(self, pipe: Any, model: nn.Module, architecture: str) -> ExternalLoader | None:
        from headway.tasks.embedding.export_check import OF_TEXTS, OF_TOKENS

        if gives(model) is Gives.VECTOR:
            return OF_TEXTS
        return None if architecture.endswith("EncoderModel") else OF_TOKENS

    def read(self, pipe: Any, model: nn.Module, ids: Tensor, mask: Tensor | None) -> Tensor:
        return pipe.pooled(ids, mask) if model is pipe.model else model(ids, mask)

    def made_up(self, pipe: Any, given: MaterialInputs) -> Material:
        from headway.tasks.common.material import made_up_table

        scored = given.facts.get("data", {}).get("label_column") is not None

        def row(number: int, text: str, other: str) -> dict[str, str]:
            score = {"label_column": str(number % 5)} if scored else {}
            return {"text_column": text, "second_column": other, **score}

        return made_up_table(pipe, given.folder, row)


TASK = EmbeddingTask()
