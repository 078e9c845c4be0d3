"""How a model directory says that a target begins and ends: ``generation_config.json``, or else ``config.json``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.hub.directory import read_json
from headway.hub.families import FAMILIES
from headway.hub.kept import CONFIG, GENERATION


@dataclass(frozen=True)
class TargetRules:
    """What an encoder-decoder's target begins with, and what ends it."""

    start: tuple[int, ...]
    """the ids that it begins with: the decoder's start, and after it a forced one (a language, a sentence's begin)"""
    end: tuple[int, ...] = ()
    """the ids that end it, each of them"""
    forbidden: tuple[int, ...] = ()
    """ids that are never chosen"""
    max_length: int | None = None
    """how many ids it may have, its start among them; None: not said"""


def target_rules(path: str | Path, rows: int) -> TargetRules:
    """The rules of the model directory of an encoder-decoder whose decoder has ``rows`` token vectors.

    The start is ``decoder_start_token_id``, else the begin of a sentence, else padding.  Raises InputError where none
    of them is there, and for ids that are none.
    """
    directory = Path(path)
    theirs = read_json(directory / CONFIG)
    assumed = next((f.special(theirs) for f in FAMILIES if f.model_type == theirs.get("model_type")), {})
    theirs = {**assumed, **theirs}
    where = directory / GENERATION
    said = read_json(where) if where.is_file() else theirs
    starts = [
        given[key]
        for key in ("decoder_start_token_id", "bos_token_id", "pad_token_id")
        for given in (said, theirs)
        if given.get(key) is not None
    ]
    if not starts:
        raise InputError(f"{directory / CONFIG}: no decoder_start_token_id: a target has nothing to begin with")
    words = said.get("bad_words_ids")
    words = words if isinstance(words, list) else []
    rules = TargetRules(
        start=(*_ids(starts[0], directory)[:1], *_ids(said.get("forced_bos_token_id"), directory)),
        end=_ids(said.get("eos_token_id", theirs.get("eos_token_id")), directory),
        forbidden=tuple(word[0] for word in words if isinstance(word, list) and len(word) == 1 and _is_id(word[0])),
        max_length=said.get("max_length") if _is_id(said.get("max_length")) else None,
    )
    strange = [one for one in (*rules.start, *rules.end, *rules.forbidden) if one >= rows]
    if strange:
        raise InputError(f"{directory}: names the token {strange[0]:,}, but the model has {rows:,}, from 0 on")
    return rules


def _ids(value: Any, directory: Path) -> tuple[int, ...]:
    """One id, several, or none (null)."""
    found = [] if value is None else value if isinstance(value, list) else [value]
    for one in found:
        if not _is_id(one):
            raise InputError(f"{directory}: {one!r} is not the id of a token")
    return tuple(found)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
