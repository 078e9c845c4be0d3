"""The interface of a target (a module of this folder, in ``workflows.export.registry``), and what targets take."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from headway.errors import InputError
from headway.hub.directory import family_of, has_family, model_config
from headway.hub.sentence_transformers import without_modules
from headway.models.adapt.lora import LowRankLinear
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.text.tokenizer import Tokenizer
from headway.workflows.export.parity import Parity
from headway.workflows.export.registry import TARGETS, target


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


def columns_of(pipe: Any) -> dict[str, Any]:
    """The pipelines of several label columns, by the folder that each is exported to; none of another model."""
    columns: dict[str, Any] = getattr(pipe, "columns", {})
    names = [re.sub(r"[^\w .-]+|^\.+", "_", name) for name in columns]
    folders = names if len(set(names)) == len(names) else [f"{at}-{name}" for at, name in enumerate(names)]
    return dict(zip(folders, columns.values(), strict=True))


class Target(Protocol):
    """What the module of a target provides.  Its packages are imported inside its functions."""

    def refuse(self, subject: Subject) -> None:
        """Raise InputError if the target cannot express this model or its tokenizer, naming those that it can.

        It looks at their parts, not at weights or files, since it is also asked before a model is trained.  The first
        clause of the message, after the directory, says why.
        """

    def write(self, subject: Subject, directory: Path, precision: str) -> None:
        """Write the files into an existing empty directory.

        Errors of the file system may pass as they are.  Raises InputError for a model that turns out inexpressible.
        """

    def compare(self, subject: Subject, directory: Path, precision: str) -> Parity:
        """Open what was written as its users do, and compare the answers with those of the subject."""


def layout_advice(model: nn.Module) -> str:
    """The last clause of a refusal: how to train a language model that the target takes; "" for another model."""
    if not isinstance(model, Decoder) or not isinstance(model_config(model), TransformerConfig):
        return ""
    return "; to train a language model for it, use --tokenizer bpe --layout qwen3"


def check_family(subject: Subject) -> str:
    """The ``model_type`` of the subject's Hugging Face family.  Raises InputError for a model that has none."""
    if isinstance(config := model_config(subject.model), BaselineConfig):
        raise InputError(f"{subject.directory}: this is {config.described}, which no other program reads.")
    if subject.family is None:
        raise InputError(
            f"{subject.directory}: no Hugging Face family has these parts, so no other program reads this model."
        )
    return subject.family


ANYWHERE = Path("RUN")
CLAUSE = re.compile(r", and |, so |; |\. ")
"""Where the first clause of a message ends."""


def refusals(model: Any, processor: Any, pipe: Any = None) -> dict[str, str | None]:
    """By target: None if it can express the model, or why it cannot, in a few words, also before it is trained.

    ``processor`` is the model's tokenizer, or its image preprocessor; ``pipe`` its pipeline or, before it is trained,
    the data of its task, of which only attributes are looked at.  No library of a target is imported.
    Adapters are left out where the model has no low-rank updates.
    """
    subject = Subject(model, processor if isinstance(processor, Tokenizer) else None, pipe, ANYWHERE)
    found: dict[str, str | None] = {}
    updates = any(isinstance(module, LowRankLinear) for module in model.modules())
    for name, spec in TARGETS.items():
        if spec.lora and not updates:
            continue
        try:
            target(name).refuse(subject)
            found[name] = None
        except InputError as error:
            found[name] = CLAUSE.split(str(error).removeprefix(f"{ANYWHERE}: "))[0].removesuffix(".")
    return found


def in_words(refused: dict[str, str | None]) -> str:
    """The same in one line."""
    possible = ", ".join(name for name, reason in refused.items() if reason is None) or "none"
    reasons = [f"{name}: {reason}" for name, reason in refused.items() if reason is not None]
    return f"exports: {possible}" + (f" - not {'; not '.join(reasons)}" if reasons else "")
