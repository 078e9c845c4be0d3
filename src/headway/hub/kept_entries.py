"""Configuration entries that are not about the architecture: special tokens, labels, generation settings.

They are kept with a loaded model (``model.kept``, by file) and written again when the model is saved.
"""

import re
from pathlib import Path
from typing import Any

from torch import nn

from headway.hub.families.entries import Json
from headway.hub.families.family import Family
from headway.io.strict_json import read_object

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


def keep(model: nn.Module, **entries: Any) -> None:
    """Keep further entries of ``config.json`` with a model."""
    kept = getattr(model, "kept", {})
    model.kept = {**kept, CONFIG: {**kept.get(CONFIG, {}), **entries}}  # type: ignore[assignment]


def kept(model: nn.Module, name: str) -> Any:
    """Such an entry; None where there is none."""
    return getattr(model, "kept", {}).get(CONFIG, {}).get(name)


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
