"""What a model can be exported to, asked before it is trained: only its parts and its tokenizer matter."""

import re
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.nn.lora import LowRankLinear
from headway.text.tokenizer import Tokenizer
from headway.workflows.export.registry import TARGETS, target
from headway.workflows.export.target import Subject

ANYWHERE = Path("RUN")
CLAUSE = re.compile(r", and |, so |; |\. ")
"""Where the first clause of a message ends."""


def refusals(model: Any, processor: Any, pipe: Any = None) -> dict[str, str | None]:
    """By target: None if it can express the model, or why it cannot, in a few words.

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
