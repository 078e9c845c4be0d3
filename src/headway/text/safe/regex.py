"""The regular expressions of a tokenizer: which are known, and a trial of others on hard texts when they are loaded.

The regex engine backtracks; a pattern such as ``(a+)+b`` has 2^n paths on n letters, one such as ``\\s+$`` has n^2.  The
trial finds most that would hang; since none can find all, a tokenizer that is not ``is_known`` reads texts in a process
of its own (``headway.text.isolated``).  The texts grow as long as the time stays short, so a trial ends soon whatever
the pattern is.
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
_ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_CUT = r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
_CASES = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|"
)
_APART = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PUBLISHED = frozenset(
    [
        *(r"\w+|[^\w\s]", r"\s|\w+|[^\w\s]"),  # Headway's words
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
        r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",  # CLIP
        *(  # Llama 3, Qwen 2 and 3
            _APART + rf"|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{some}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|" + _ENDS
            for some in ("{1,3}", "")
        ),
        _APART + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _ENDS,  # Qwen 3.5
        *("'(?i:[sdmt]|ll|ve|re)|" + _CUT % digits for digits in (2, 3)),  # nanochat, GPT-4
        _CASES % (f"{_APART}?", f"{_APART}?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _ENDS,  # GPT-4o, Llama 4
        _CASES % ("", "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _ENDS,  # Mistral NeMo
        r" ?[^(\s|[.,!?…。，、।۔،])]+",  # BLOOM
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|" + _ENDS,  # DeepSeek V3
        *("[0-9][0-9][0-9]", r"\p{N}{1,3}", "[\r\n]", r"[\r\n]", " {2,}", r"\s{2,}|[\n\r\t]", r"\s+", r"\n"),
    ]
)
"""The patterns of tokenizers that many models have, by value: each takes a time linear in the text."""
KNOWN_WORD = 200
"""Characters of a word that WordPiece splits, at most, in published tokenizers; the time grows with the cube."""


def is_known(spec: dict[str, Any]) -> bool:
    """Whether all patterns of a parsed ``tokenizer.json`` are published ones, and words are no longer than theirs."""
    parts = [part for name in ("normalizer", "pre_tokenizer", "decoder") for part in parts_of(spec.get(name), name)]
    patterns = [part["pattern"] for part in parts if isinstance(part.get("pattern"), dict)]
    word = spec["model"].get("max_input_chars_per_word", 0)
    return type(word) is int and word <= KNOWN_WORD and all(one.get("Regex") in (None, *PUBLISHED) for one in patterns)


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
