"""What is exported, and which formats take it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from headway.formats.hf.loaders import ExternalLoader
from headway.formats.parity import Parity
from headway.formats.registry import FORMATS
from headway.hub.directory import family_of, has_family, model_config
from headway.hub.sentence_transformers import without_modules
from headway.models.adapt.lora import LowRankLinear
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.text.tokenizer import Tokenizer

CLAUSE = re.compile(r", and |, so |; |\. ")
"""Where the first clause of a message ends."""


@dataclass(frozen=True)
class Subject:
    """What is exported."""

    model: Any
    """an ``nn.Module`` in eval mode, on the CPU, in float32"""
    tokenizer: Any
    """a ``Tokenizer``; None for a model that reads images"""
    pipe: Any
    """the model's ``Pipeline``; None if it has no task or lacks files that the pipeline needs"""
    directory: Path
    """where the model was read from"""
    no_pipe: str = ""
    """why it has no pipeline"""
    external_loader: Callable[[Any, nn.Module, str], ExternalLoader | None] = lambda *_: None
    """``external_loader`` of the task of a pipeline, a model and its architecture"""

    @property
    def parts(self) -> dict[str, "Subject"]:
        """The models that other programs read one by one, by their folder: of several label columns that of each."""
        if not (pipes := columns_of(self.pipe)):
            return {"": self}
        return {folder: replace(self, model=pipe.model, pipe=pipe) for folder, pipe in pipes.items()}

    @property
    def family(self) -> str | None:
        """The ``model_type`` of the Hugging Face family that expresses the model; None: there is none."""
        return family_of(without_modules(self.model)[0])[0].model_type if has_family(self.model) else None

    @property
    def no_family(self) -> str | None:
        """Why no other program reads the model; None where a Hugging Face family expresses it."""
        if isinstance(config := model_config(self.model), BaselineConfig):
            return f"this is {config.described}, which no other program reads"
        return None if self.family else "no Hugging Face family has these parts, so no other program reads this model"

    @property
    def layout_advice(self) -> str:
        """The last clause of a refusal: how to train a language model that is taken; "" for another model."""
        if not isinstance(self.model, Decoder) or not isinstance(model_config(self.model), TransformerConfig):
            return ""
        return "; to train a language model for it, use --tokenizer bpe --layout qwen3"


class Writer(Protocol):
    """What ``export.py`` of a format provides.  Its packages are imported inside its functions."""

    def problem(self, subject: Subject) -> str | None:
        """Why the format cannot express this model or its tokenizer, naming those that it can; None if it can.

        It looks at their parts, not at weights or files, since it is also asked before a model is trained.  The first
        clause says why.
        """

    def write(self, subject: Subject, directory: Path, precision: str) -> None:
        """Write the files into an existing empty directory.

        Errors of the file system may pass as they are.  Raises InputError for a model that turns out inexpressible.
        """

    def compare(self, subject: Subject, directory: Path, precision: str) -> Parity:
        """Open what was written as its users do, and compare the answers with those of the subject."""


def columns_of(pipe: Any) -> dict[str, Any]:
    """The pipelines of several label columns, by the folder that each is exported to; none of another model."""
    columns: dict[str, Any] = getattr(pipe, "columns", {})
    names = [re.sub(r"[^\w .-]+|^\.+", "_", name) for name in columns]
    folders = names if len(set(names)) == len(names) else [f"{at}-{name}" for at, name in enumerate(names)]
    return dict(zip(folders, columns.values(), strict=True))


def refusals(model: Any, processor: Any, pipe: Any = None) -> dict[str, str | None]:
    """By format: None if it can express the model, or why it cannot, in a few words, also before it is trained.

    ``processor`` is the model's tokenizer, or its image preprocessor; ``pipe`` its pipeline or, before it is trained,
    the data of its task, of which only attributes are looked at.  No library of a format is imported.
    Adapters are left out where the model has no low-rank updates.
    """
    subject = Subject(model, processor if isinstance(processor, Tokenizer) else None, pipe, Path("RUN"))
    has_updates = any(isinstance(module, LowRankLinear) for module in model.modules())
    asked = (format for format in FORMATS.values() if has_updates or not format.lora)
    problems = {format.name: format.module("export").problem(subject) for format in asked}
    return {name: problem and CLAUSE.split(problem)[0] for name, problem in problems.items()}


def in_words(refused: dict[str, str | None]) -> str:
    """The same in one line."""
    possible = ", ".join(name for name, reason in refused.items() if reason is None) or "none"
    reasons = [f"{name}: {reason}" for name, reason in refused.items() if reason is not None]
    return f"exports: {possible}" + (f" - not {'; not '.join(reasons)}" if reasons else "")
