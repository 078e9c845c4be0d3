"""The doors by which a user opens a saved model elsewhere, one for each task.

    door = door_of(pipe, model, entries)        # entries: of config.json
    opened = door.open(transformers, directory)
    opened.answers, opened.model                # what the user calls, and the bare model inside

A door is ``pipeline(TASK, DIR)`` where ``transformers`` has a pipeline for the task; else ``SentenceTransformer(DIR)``
for vectors of texts; else the class of ``transformers`` that loads the model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from headway.hub.sentence_transformers import without_modules
from headway.models.heads import PoolingHead
from headway.models.transformer import Decoder
from headway.workflows.export.door_answers import (
    Asked,
    classes,
    continuations,
    fillings,
    pictures,
    targets,
    tokens,
    vectors,
)

CLASSES = {
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForImageClassification": "AutoModelForImageClassification",
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "MTModel": "AutoModelForSeq2SeqLM",
    "EncoderModel": "AutoModelForTextEncoding",
    "Model": "AutoModel",
}
"""The end of an architecture's name -> the class of ``transformers`` that loads it; the first that fits."""
REPORTED = ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")
"""What ``from_pretrained`` reports of weights, less the names that the class itself declares as ignorable."""


class Unread(Exception):
    """The door opens another model, or not all of it is in the files; what is wrong."""


@dataclass(frozen=True)
class Opened:
    """What a user gets."""

    answers: Any
    """the pipeline, the SentenceTransformer, or the model itself"""
    model: Any
    """the model of ``transformers`` inside"""


@dataclass(frozen=True)
class Door:
    """One way to open a directory, and how its answers are compared with ours."""

    words: str
    """as a user writes it"""
    open_with: Callable[[Any, Path], Any]
    """``transformers`` and the directory -> what a user gets"""
    inside: Callable[[Any], Any]
    """-> the model of ``transformers`` in that"""
    compare: Callable[[Asked, Any], tuple[float, str | None]] | None = None
    """(the largest difference of scores, other differences); None: there are no answers but the model's own"""
    texts: int = 32
    """how many texts are answered"""

    def open(self, transformers: Any, directory: Path, architecture: str | None = None) -> Opened:
        """Open a directory.  Raises Unread unless every weight is read from it and none is left over."""
        answers = self.open_with(transformers, directory)
        model = self.inside(answers)
        check_whole(type(model), directory)
        if architecture is not None and type(model).__name__ != architecture:
            raise Unread(f"it makes a {type(model).__name__} of it, expected {architecture}")
        return Opened(answers, model.float().eval())


def check_whole(cls: Any, directory: Path) -> None:
    """Raise Unread, naming weights, unless a class of ``transformers`` finds in a directory all of its own and no more.

    A weight that is missing there is one that the class draws at random.
    """
    _, report = cls.from_pretrained(directory, local_files_only=True, output_loading_info=True)
    problems = []
    for kind in REPORTED:
        if names := sorted(map(str, report.get(kind) or ())):
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            problems.append(f"{kind.replace('_', ' ')}: {', '.join(names[:3])}{more}")
    if problems:
        raise Unread("; ".join(problems))


def _pipeline(task: str, compare: Callable[[Asked, Any], tuple[float, str | None]], texts: int = 32) -> Door:
    def open_with(transformers: Any, directory: Path) -> Any:
        return transformers.pipeline(task, str(directory), device="cpu")

    return Door(f'pipeline("{task}", DIR)', open_with, lambda pipe: pipe.model, compare, texts)


def _sentence_transformer(transformers: Any, directory: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(directory), device="cpu", local_files_only=True)


def _class(name: str, compare: Callable[[Asked, Any], tuple[float, str | None]] | None = None) -> Door:
    def open_with(transformers: Any, directory: Path) -> Any:
        return getattr(transformers, name).from_pretrained(directory, local_files_only=True).eval()

    return Door(f"{name}.from_pretrained(DIR)", open_with, lambda model: model, compare, texts=8)


SENTENCE_TRANSFORMER = Door(
    "SentenceTransformer(DIR)", _sentence_transformer, lambda model: model[0].auto_model, vectors
)
DOORS: dict[str, Door] = {
    "classification": _pipeline("text-classification", classes),
    "language_modeling": _pipeline("text-generation", continuations, texts=8),
    "masked_lm": _pipeline("fill-mask", fillings),
    "embedding": SENTENCE_TRANSFORMER,
    "token vectors": _pipeline("feature-extraction", tokens),
    "translation": _class("AutoModelForSeq2SeqLM", targets),
    "image_classification": _pipeline("image-classification", pictures),
}
"""A task -> its door."""


def door_of(pipe: Any, model: nn.Module, architecture: str) -> Door:
    """The door of a model: ``pipe`` is the pipeline that answers with it here, None where there is none.

    ``architecture`` is what its ``config.json`` names.
    """
    task = getattr(pipe, "task", None)
    if task == "translation" and isinstance(model, Decoder):
        task = "language_modeling"
    if task == "embedding" and not isinstance(getattr(model, "head", None), PoolingHead):
        task = "token vectors" if not architecture.endswith("EncoderModel") else None
    if task in DOORS:
        return DOORS[task]
    return _class(next(name for end, name in CLASSES.items() if architecture.endswith(end)))


def other_reader(model: nn.Module, labels: list[str]) -> str | None:
    """Who reads a classifier whose layout no classifier of ``transformers`` has, in one line; None for other models."""
    bare, head = without_modules(model)
    if head is None or isinstance(head, PoolingHead) or bare is model:
        return None
    names = ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
    return (
        "its classifier is in the layout of sentence-transformers; this line reads it, and gives a logit for each of "
        f"{names}: SentenceTransformer(RUN).encode(TEXTS)"
    )
