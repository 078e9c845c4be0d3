"""The call by which a user loads a saved model in another library.

It is ``pipeline(TASK, DIR)`` if ``transformers`` has a pipeline for the task; otherwise ``SentenceTransformer(DIR)``
for embeddings of texts; otherwise the class of ``transformers`` that loads the model.
"""

from typing import Any

from torch import nn

from headway.hub.sentence_transformers import without_modules
from headway.models.heads import Gives, gives
from headway.tasks.checks import ExternalLoader, class_loader
from headway.tasks.registry import task_named

CLASSES = {
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForImageClassification": "AutoModelForImageClassification",
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "MTModel": "AutoModelForSeq2SeqLM",
    "EncoderModel": "AutoModelForTextEncoding",
    "Model": "AutoModel",
}
"""The end of an architecture's name -> the class of ``transformers`` that loads it; the first that fits."""


def loader_of(pipe: Any, model: nn.Module, architecture: str) -> ExternalLoader:
    """The call that loads a model: ``pipe`` is its pipeline here, None if there is none.

    ``architecture`` is the one named in ``config.json``.
    """
    loader = None if pipe is None else task_named(pipe.task).external_loader(pipe, model, architecture)
    return loader or class_loader(class_of(architecture))


def class_of(architecture: str) -> str:
    """The class of ``transformers`` that loads an architecture."""
    return next(name for end, name in CLASSES.items() if architecture.endswith(end))


def other_reader(model: nn.Module, labels: list[str]) -> str | None:
    """One line of code that reads a classifier whose layout ``transformers`` lacks; None for other models."""
    if gives(model) in (Gives.HIDDEN, Gives.VECTOR) or without_modules(model)[0] is model:
        return None
    names = ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
    return (
        "its classifier is in the layout of sentence-transformers; this line reads it, and gives a logit for each of "
        f"{names}: SentenceTransformer(RUN).encode(TEXTS)"
    )
