"""Configuration entries that are not about the architecture: special tokens, labels, generation settings.

They are kept with a loaded model (``model.kept``, by file) and written again when the model is saved.  ``columns`` says
what a model of several label columns gives, by name, in the order of the outputs:

{"queue": {"task": "classification", "labels": ["billing", "tech"]},
 "price": {"task": "regression", "labels": [], "mean": 40.5, "spread": 12.0}}
"""

import math
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.errors import InputError
from headway.hub.families.entries import Json
from headway.hub.families.family import Family
from headway.io.strict_json import read_object
from headway.models.heads import n_outputs

CONFIG, GENERATION = "config.json", "generation_config.json"
WRITING_IDS = ("decoder_start_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
"""The ids that start, end and pad a text, in ``generation_config.json`` or in older versions' ``config.json``."""
LABELS = ("id2label", "label2id")
KEPT = re.compile(
    r".*_token_ids?|bad_words_ids|id2label|label2id|problem_type|thresholds|columns|task_specific_params|tokenizer_class"
    r"|prefix"
    r"|max_length|min_length|num_beams|length_penalty|early_stopping|no_repeat_ngram_size|repetition_penalty"
    r"|do_sample|temperature|top_k|top_p"
)
"""The kept entries of ``config.json``; generation settings are there in directories of older versions."""


def kept_entries(directory: Path, theirs: Json, family: Family) -> dict[str, Json]:
    """By file: the entries of ``config.json`` not about the architecture, and all of ``generation_config.json`` if any.

    Ids that the family assumes when they are missing are added.
    """
    config = {**family.special(theirs), **{key: value for key, value in theirs.items() if KEPT.fullmatch(key)}}
    path = directory / GENERATION
    return {CONFIG: config, GENERATION: read_object(path) if path.is_file() else {}}


def keep(model: nn.Module, file: str = CONFIG, /, **entries: Any) -> None:
    """Keep further entries of a file with a model."""
    kept = getattr(model, "kept", {})
    model.kept = {**kept, file: {**kept.get(file, {}), **entries}}  # type: ignore[assignment]


def kept(model: nn.Module, name: str, file: str = CONFIG) -> Any:
    """Such an entry; None where there is none."""
    return getattr(model, "kept", {}).get(file, {}).get(name)


def entries_to_write(model: nn.Module, theirs: Json, entries: Json) -> dict[str, Json]:
    """By file: the entries kept with the model, for the family's description ``theirs``; ``entries`` take precedence.

    Labels are kept if the number of classes is unchanged.
    """
    kept: Any = getattr(model, "kept", {})
    config = dict(kept.get(CONFIG, {}))
    for key in LABELS:
        if len(config.get(key) or ()) != len(theirs.get(key) or ()):
            config.pop(key, None)
    generation = kept.get(GENERATION, {})
    if generation:  # transformers then reads the ids only there; Headway reads both
        known = {**theirs, **config, **entries}
        generation = {**{key: known[key] for key in WRITING_IDS if known.get(key) is not None}, **generation}
    return {
        CONFIG: {**config, **entries},
        GENERATION: {**generation, **{key: value for key, value in entries.items() if key in generation}},
    }


COLUMNS = "columns"


def slices(widths: Iterable[int]) -> list[slice]:
    """What lies side by side, in so many places each."""
    return [slice(start, end) for start, end in pairwise(accumulate(widths, initial=0))]


def width(column: Mapping[str, Any]) -> int:
    """The outputs of a column: one for each label, or one number."""
    return len(column["labels"]) or 1


def set_units(model: Any, directory: Path) -> None:
    """Give the outputs of numbers their own unit: the weights know neither the mean nor the spread.

    Raises InputError for columns that the model cannot have.
    """
    columns = kept(model, COLUMNS)
    if columns is None:
        return
    if (
        not isinstance(columns, dict)
        or not all(map(_possible, columns.values()))
        or n_outputs(model) != sum(map(width, columns.values()))
    ):
        raise InputError(f"{directory / CONFIG}: columns does not say what the {n_outputs(model)} outputs are.")
    widths = torch.tensor([*map(width, columns.values())])
    pairs = torch.tensor([[column.get("spread", 1.0), column.get("mean", 0.0)] for column in columns.values()])
    model.head.set_scale(*pairs.repeat_interleave(widths, dim=0).T)


def _possible(column: Any) -> bool:
    if not isinstance(column, dict) or not isinstance(column.get("task"), str):
        return False
    labels, units = column.get("labels"), [column.get("spread", 1.0), column.get("mean", 0.0)]
    named = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    return named and all(isinstance(unit, int | float) and math.isfinite(unit) for unit in units)
