"""How targets start and end, and unsupported settings, from ``generation_config.json`` or else ``config.json``."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.hub.directory import read_json
from headway.hub.families import FAMILIES
from headway.hub.kept_entries import CONFIG, GENERATION


@dataclass(frozen=True)
class TargetRules:
    """How the target of an encoder-decoder starts and ends."""

    start: tuple[int, ...]
    """the ids that it starts with: the decoder's start, then a forced token (a language, a sentence's begin)"""
    end: tuple[int, ...] = ()
    """the ids that end it, any of them"""
    forbidden: tuple[int, ...] = ()
    """ids that are never generated"""
    max_length: int | None = None
    """maximum number of ids, the start included; None: not specified"""


NOT_SUPPORTED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "min_length", "min_new_tokens"), (0,)),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids", "sequence_bias"), ([], {})),
    **dict.fromkeys(("encoder_repetition_penalty", "typical_p", "guidance_scale", "num_beam_groups"), (1,)),
    **dict.fromkeys(("epsilon_cutoff", "eta_cutoff", "diversity_penalty", "penalty_alpha", "top_h"), (0,)),
    **dict.fromkeys(("exponential_decay_length_penalty", "watermarking_config"), ()),
}
"""Settings of ``generation_config.json`` that change the output but are not supported here, with the values that change
nothing; null never does."""


def warn_of_settings(path: str | Path) -> None:
    """Warn of settings in a model directory's ``generation_config.json`` that are not supported here.

    Length, search and sampling settings are not among them: a verb's options set those.
    """
    where = Path(path) / GENERATION
    settings = read_json(where) if where.is_file() else {}
    asked = [name for name, neutral in NOT_SUPPORTED.items() if settings.get(name) not in (None, False, *neutral)]
    words = settings.get("bad_words_ids")
    if isinstance(words, list) and any(isinstance(word, list) and len(word) > 1 for word in words):
        asked.append("bad_words_ids of several tokens")
    if asked:
        what = "is" if len(asked) == 1 else "are"
        warnings.warn(f"{where}: {', '.join(asked)} {what} not supported: outputs may differ", stacklevel=2)


def target_rules(path: str | Path, rows: int) -> TargetRules:
    """The rules of the model directory of an encoder-decoder whose decoder has ``rows`` token vectors.

    The start is ``decoder_start_token_id``, else the begin-of-sentence token, else padding.  Raises InputError if none
    of them is given, and for invalid ids.
    """
    directory = Path(path)
    theirs = read_json(directory / CONFIG)
    assumed = next((f.special(theirs) for f in FAMILIES if f.model_type == theirs.get("model_type")), {})
    theirs = {**assumed, **theirs}
    where = directory / GENERATION
    settings = read_json(where) if where.is_file() else theirs
    starts = [
        entries[key]
        for key in ("decoder_start_token_id", "bos_token_id", "pad_token_id")
        for entries in (settings, theirs)
        if entries.get(key) is not None
    ]
    if not starts:
        raise InputError(f"{directory / CONFIG}: no decoder_start_token_id: a target has no token to start with")
    words = settings.get("bad_words_ids")
    words = words if isinstance(words, list) else []
    rules = TargetRules(
        start=(*_ids(starts[0], directory)[:1], *_ids(settings.get("forced_bos_token_id"), directory)),
        end=_ids(settings.get("eos_token_id", theirs.get("eos_token_id")), directory),
        forbidden=tuple(word[0] for word in words if isinstance(word, list) and len(word) == 1 and _is_id(word[0])),
        max_length=settings.get("max_length") if _is_id(settings.get("max_length")) else None,
    )
    strange = [number for number in (*rules.start, *rules.end, *rules.forbidden) if number >= rows]
    if strange:
        raise InputError(f"{directory}: names the token {strange[0]:,}, but the model has {rows:,}, from 0 on")
    return rules


def _ids(value: Any, directory: Path) -> tuple[int, ...]:
    """One id, several, or none (null)."""
    ids = [] if value is None else value if isinstance(value, list) else [value]
    for number in ids:
        if not _is_id(number):
            raise InputError(f"{directory}: {number!r} is not the id of a token")
    return tuple(ids)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
