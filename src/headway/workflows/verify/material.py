"""Data to train a model on for a few steps: the beginning of its run's data, or synthetic texts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.tasks.common.material import Material, MaterialInputs
from headway.tasks.registry import room
from headway.workflows.evaluate import reading_options
from headway.workflows.input import known_columns, read_input
from headway.workflows.verify.check import DoesNotApply
from headway.workflows.verify.samples import Subject

MOST_BYTES = 1 << 25
"""Larger files are not checked for changes, since that means reading all of them."""


def own_data(facts: dict[str, Any], length: int, folder: Path) -> Material | None:
    """The beginning of a run's training data; None if they are gone, have changed or are too large to check.

    ``facts`` is its headway.json, ``length`` the tokens of its windows.
    """
    data, task = facts.get("data", {}), facts.get("task", "")
    files = [str(file) for file in data.get("inputs", [])]
    if not files or sum(_size(Path(file)) for file in files) > MOST_BYTES:
        return None
    try:
        options = reading_options(facts, files, task)
        source, found = read_input(files, options, known_columns(facts), chat="conversations" in data)
        if source.fingerprint != data.get("fingerprint"):
            return None
        made = room(task).beginning(source, found, options, MaterialInputs(facts, length, folder))
    except InputError:
        return None
    if made is None:
        return None
    return replace(made, options={"task": task, **made.options}, origin="the beginning of its own data")


def made_up(subject: Subject, facts: dict[str, Any], length: int, folder: Path) -> Material:
    """Inputs of random tokens of the model's vocabulary, or of random pixels.  Raises DoesNotApply if neither works."""
    pipe = subject.pipe
    made = room(pipe.task).made_up(pipe, MaterialInputs(facts, length, folder))
    if made is None:
        raise DoesNotApply("its run has no data, and none can be generated")
    return replace(made, options={"task": pipe.task, **made.options})


def _size(file: Path) -> int:
    """Size in bytes; too large to read for a missing file or a folder."""
    return file.stat().st_size if file.is_file() else MOST_BYTES + 1
