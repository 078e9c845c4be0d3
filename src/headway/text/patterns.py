"""Patterns of a tokenizer are tried on texts that are hard for them, so that none takes for ever when it is used.

The search behind them tries one way after another; a pattern such as ``(a+)+b`` has 2^n of them on n letters, one such
as ``\\s+$`` n^2.  The texts get longer while the time stays short, so a trial ends soon whatever the pattern is.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers

from headway.errors import InputError
from headway.text.growth import parts_of
from headway.text.guard import guarded

LENGTHS = (32, 256, 4096, 8192)
SECONDS = 0.05
"""Of the processor, for a text of one of these lengths.

For the longest, the patterns of Llama 3 need 0.003 s and ``a+$``, of n^2 ways, 0.23 s (two cores, 2026).
"""
USUAL = " a0\n'Aé中!"
MOST_LETTERS = 24


def check_patterns(tokenizer: tokenizers.Tokenizer, spec: dict[str, Any], path: Path) -> None:
    """Try the patterns of a ``tokenizer.json`` that was loaded.  Raises InputError for one that takes too long."""
    for component in ("normalizer", "pre_tokenizer"):
        patterns = [
            found
            for part in parts_of(spec.get(component), component)
            if isinstance(part.get("pattern"), dict) and isinstance(found := part["pattern"].get("Regex"), str)
        ]
        if not patterns:
            continue
        work = tokenizer.normalizer.normalize_str if component == "normalizer" else None
        _try(work or tokenizer.pre_tokenizer.pre_tokenize_str, patterns, f"{path}: {component}")


def _try(work: Callable[[str], object], patterns: list[str], where: str) -> None:
    letters = list(dict.fromkeys([*USUAL, *(letter for pattern in patterns for letter in pattern)]))[:MOST_LETTERS]
    rest = "".join(letters)  # after which a letter that a pattern asks for is there, but never where it is sought
    for length in LENGTHS:
        for letter in letters:
            text = letter * length + rest.replace(letter, "")
            what = f"{where}: a pattern cannot be used on {letter!r} {length} times; use another tokenizer"
            if _seconds(work, text, what) > SECONDS and _seconds(work, text, what) > SECONDS:  # not by chance
                raise InputError(
                    f"{where}: a pattern takes too long: more than {SECONDS:g} s for {letter!r} {length} times; "
                    f"found {patterns[0][:60]!r}; use the tokenizer that was published with the model"
                )


def _seconds(work: Callable[[str], object], text: str, what: str) -> float:
    began = time.thread_time()
    guarded(lambda: work(text), what)
    return time.thread_time() - began
