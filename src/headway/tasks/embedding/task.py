"""Vectors of texts: an encoder whose tokens are pooled.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.hub.directory import model_config
from headway.models.heads import Gives, gives
from headway.tasks.checks import (
    ExternalLoader,
    Found,
    Material,
    MaterialInputs,
    Original,
    differs,
    pipeline_loader,
    worst,
)
from headway.tasks.embedding.pipeline import Embedder
from headway.tasks.embedding.spec import SPEC
from headway.tasks.task import FolderTask
from headway.text.tokenizer import Tokenizer


@torch.no_grad()
def tokens(original: Original, theirs: Any) -> Found:
    """The vector of every token."""
    value = 0.0
    for text in original.texts:
        ids = torch.tensor([original.pipe.tokenizer.encode(text, special=True)])
        found = torch.tensor(theirs(text)[0])
        ours = original.model(ids)[0].float()
        if found.shape != ours.shape:
            return value, f"gives vectors of shape {list(found.shape)} for {text[:60]!r}, expected {list(ours.shape)}"
        value = worst(value, found - ours)
    return value, differs("gives other vectors", value)


@torch.no_grad()
def vectors(original: Original, theirs: Any) -> Found:
    """The vector of every text."""
    found = torch.from_numpy(theirs.encode(list(original.texts), show_progress_bar=False, convert_to_numpy=True))
    value = worst(0.0, found.float() - torch.from_numpy(original.pipe(list(original.texts))))
    return value, differs("gives other vectors", value)


def _sentence_transformer(transformers: Any, directory: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(directory), device="cpu", local_files_only=True)


OF_TEXTS = ExternalLoader("SentenceTransformer(DIR)", _sentence_transformer, lambda model: model[0].auto_model, vectors)
OF_TOKENS = pipeline_loader("feature-extraction", tokens)


class EmbeddingTask(FolderTask):
    """An encoder that gives one vector for each text."""

    spec = SPEC
    pipeline_tag = "sentence-similarity"

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Embedder:
        tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
        return Embedder(model, tokenizer, facts.get("plan", {}).get("length"))

    def external_loader(self, pipe: Any, model: nn.Module, architecture: str) -> ExternalLoader | None:
        if gives(model) is Gives.VECTOR:
            return OF_TEXTS
        return None if architecture.endswith("EncoderModel") else OF_TOKENS

    def read(self, pipe: Any, model: nn.Module, ids: Tensor, mask: Tensor | None, **segments: Tensor) -> Tensor:
        return (pipe.pooled if model is pipe.model else model)(ids, mask, **segments)

    def made_up(self, pipe: Any, given: MaterialInputs) -> Material:
        from headway.tasks.checks import made_up_table

        scored = given.facts.get("data", {}).get("label_column") is not None

        def row(number: int, text: str, other: str) -> dict[str, str]:
            score = {"label_column": str(number % 5)} if scored else {}
            return {"text_column": text, "second_column": other, **score}

        return made_up_table(pipe, given.folder, row)


TASK = EmbeddingTask()
