"""How the documents of a language model begin, as its run recorded it."""

from dataclasses import replace
from typing import Any

from headway.runtime.windows import frame
from headway.tasks.language_modeling.spec import SPEC
from headway.tasks.task import TaskInputs
from headway.text.tokenizer import Tokenizer

BEGIN = "begin_tokens"
"""The entry of ``data`` in headway.json with the tokens before every document."""


def begin_tokens(tokenizer: Tokenizer) -> dict[str, list[str]]:
    """What headway.json says of how documents begin."""
    return {BEGIN: [tokenizer.tokens[number] for number in frame(tokenizer)[0]]}


def as_recorded(tokenizer: Tokenizer, facts: dict[str, Any] | None) -> Tokenizer:
    """The tokenizer of a model as it read the documents that it was trained on.

    ``facts`` are those of its run.  A run that does not record how documents begin put nothing around them, whatever
    its tokenizer says; a model from elsewhere follows its tokenizer.
    """
    known = facts or {}
    unrecorded = known.get("task") == SPEC.name and BEGIN not in known.get("data", {})
    if not unrecorded or not any(frame(tokenizer)):
        return tokenizer
    return tokenizer.without_frame()


def inputs_as_recorded(given: TaskInputs) -> TaskInputs:
    """The inputs of a language model, whose tokenizers read documents as their runs did (``as_recorded``)."""
    base, tokenizer = given.base, given.tokenizer
    if base is not None:
        base = replace(base, processor=as_recorded(base.tokenizer, base.facts))
    return replace(given, base=base, tokenizer=tokenizer and as_recorded(tokenizer, given.earlier))
