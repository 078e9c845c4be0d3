"""Time the regular expressions of a tokenizer on hard texts, so that none of them hangs in use.

The regex engine backtracks; a pattern such as ``(a+)+b`` has 2^n paths on n letters, one such as ``\\s+$`` has n^2.
The texts grow as long as the time stays short, so a trial ends soon whatever the pattern is.
"""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers

from headway.errors import InputError
from headway.text.rust_errors import guarded
from headway.text.safe.expansion import parts_of

LENGTHS = tuple(2**power for power in range(5, 14))
"""Each is twice the one before, so the last trial of a pattern with n^4 paths takes at most 16 times the limit."""
SECONDS = 0.05
"""Limit of processor time for a text of one of these lengths.

For the longest, the patterns of Llama 3 need 0.003 s, and ``a+$``, with n^2 paths, 0.23 s (two cores, 2026).
"""
CERTAIN = 10 * SECONDS
"""What is above this is not above the limit by chance, as on a busy machine, and is not measured again."""
USUAL = " a0\n'Aé中!"
MOST_LETTERS = 24


def check_patterns(tokenizer: tokenizers.Tokenizer, spec: dict[str, Any], path: Path) -> None:
    """Time the patterns of a loaded ``tokenizer.json``.  Raises InputError for one that takes too long."""
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
    rest = "".join(letters)  # any letter that a pattern requires occurs after this, but never where it is searched
    for length in LENGTHS:
        for letter in letters:
            text = letter * length + rest.replace(letter, "")
            what = f"{where}: a pattern cannot be used on {letter!r} {length} times; use another tokenizer"
            taken = _seconds(work, text, what)
            if taken > CERTAIN or (taken > SECONDS and all(_seconds(work, text, what) > SECONDS for _ in range(3))):
                raise InputError(
                    f"{where}: a pattern takes too long: more than {SECONDS:g} s for {letter!r} {length} times; "
                    f"found {patterns[0][:60]!r}; use the tokenizer that was published with the model"
                )


def _seconds(work: Callable[[str], object], text: str, what: str) -> float:
    """The processor time of one trial, without that of Python's garbage collector, which grows with the process."""
    collects = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        guarded(lambda: work(text), what)
        return time.thread_time() - began
    finally:
        if collects:
            gc.enable()
