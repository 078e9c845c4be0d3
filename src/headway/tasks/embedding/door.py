"""Another program that makes vectors of texts, or of their tokens, makes the same ones."""

from pathlib import Path
from typing import Any

import torch

from headway.tasks.common.door_answers import Asked, Found, differs, worst
from headway.tasks.common.doors import Door, pipeline_door


@torch.no_grad()
def tokens(asked: Asked, theirs: Any) -> Found:
    """The vector of every token."""
    value = 0.0
    for text in asked.texts:
        ids = torch.tensor([asked.pipe.tokenizer.encode(text, special=True)])
        found = torch.tensor(theirs(text)[0])
        ours = asked.model(ids)[0].float()
        if found.shape != ours.shape:
            return value, f"gives vectors of shape {list(found.shape)} for {text[:60]!r}, expected {list(ours.shape)}"
        value = worst(value, found - ours)
    return value, differs("gives other vectors", value)


@torch.no_grad()
def vectors(asked: Asked, theirs: Any) -> Found:
    """The vector of every text."""
    found = torch.from_numpy(theirs.encode(list(asked.texts), show_progress_bar=False, convert_to_numpy=True))
    value = worst(0.0, found.float() - torch.from_numpy(asked.pipe(list(asked.texts))))
    return value, differs("gives other vectors", value)


def _sentence_transformer(transformers: Any, directory: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(directory), device="cpu", local_files_only=True)


OF_TEXTS = Door("SentenceTransformer(DIR)", _sentence_transformer, lambda model: model[0].auto_model, vectors)
OF_TOKENS = pipeline_door("feature-extraction", tokens)
