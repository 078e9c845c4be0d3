"""How ``transformers`` opens a directory, and how its answers are compared with ours.

loader = task.external_loader(pipe, model, architecture)
answers, model = loader.open(transformers, directory)           # what the user calls, and the bare model inside
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

REPORTED = ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")
"""What ``from_pretrained`` reports of weights, less the names that the class itself declares as ignorable."""
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


class Unread(Exception):
    """The other library loads another model or only a part of it; the message says what is wrong."""


@dataclass(frozen=True)
class Original:
    """The original model, and the texts that both models answer."""

    pipe: Any
    """the pipeline that answers with it here"""
    model: nn.Module
    directory: Path
    """that of its copy"""
    texts: Sequence[str]
    """short enough that both read them whole, with ``NEW`` tokens after them"""


Compare = Callable[[Original, Any], tuple[float, str | None]]
"""The original and what another library loaded -> (the largest difference of scores, other differences)."""


@dataclass(frozen=True)
class ExternalLoader:
    """One way to open a directory, and how its answers are compared with ours."""

    words: str
    """as a user writes it"""
    open_with: Callable[[Any, Path], Any]
    """``transformers`` and the directory -> what a user gets"""
    inside: Callable[[Any], Any]
    """-> the model of ``transformers`` in that"""
    compare: Compare | None = None
    """None: there are no answers but the model's own"""
    texts: int = 32
    """how many texts are answered"""

    def open(self, transformers: Any, directory: Path, architecture: str | None = None) -> tuple[Any, Any]:
        """What a user gets, and the model of ``transformers`` inside that: the same, or in a pipeline.

        Raises Unread unless every weight is read from the directory and none is left over.
        """
        answers = self.open_with(transformers, directory)
        model = self.inside(answers)
        check_whole(type(model), directory)
        if architecture is not None and type(model).__name__ != architecture:
            raise Unread(f"it makes a {type(model).__name__} of it, expected {architecture}")
        return answers, model.float().eval()


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


def pipeline_loader(task: str, compare: Compare, texts: int = 32, **options: Any) -> ExternalLoader:
    """``pipeline(task, DIR, **options)`` of ``transformers``."""

    def open_with(transformers: Any, directory: Path) -> Any:
        return transformers.pipeline(task, str(directory), device="cpu", **options)

    given = "".join(f", {name}={value!r}" for name, value in options.items())
    return ExternalLoader(f'pipeline("{task}", DIR{given})', open_with, lambda pipe: pipe.model, compare, texts)


def class_loader(name: str, compare: Compare | None = None) -> ExternalLoader:
    """``NAME.from_pretrained(DIR)`` of ``transformers``."""

    def open_with(transformers: Any, directory: Path) -> Any:
        return getattr(transformers, name).from_pretrained(directory, local_files_only=True).eval()

    return ExternalLoader(f"{name}.from_pretrained(DIR)", open_with, lambda model: model, compare, texts=8)


def class_of(architecture: str) -> str:
    """The class of ``transformers`` that loads an architecture."""
    return next(name for end, name in CLASSES.items() if architecture.endswith(end))
