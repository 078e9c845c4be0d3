"""Another program that makes vectors of texts, or of their tokens, makes the same ones."""

from pathlib import Path
from typing import Any

import torch

from headway.tasks.common.compare_answers import Found, Original, differs, worst
from headway.tasks.common.external_loader import ExternalLoader, pipeline_loader


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
