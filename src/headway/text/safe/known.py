"""Tokenizers that are known by value: made of parts and patterns of published ones, which soon end on any text.

A regular expression can have 2^n paths on n letters, and forty replacements of ``a`` by ``aa`` make a terabyte of one
letter.  What is not known is used in a process of its own, with limits (``headway.text.backend``).
"""

import base64
import binascii
from collections import Counter
from typing import Any

from headway.text.safe.tokenizer_files import CHILDREN, parts_of
from headway.text.sentencepiece.charsmap import charsmap_growth

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
        _APART + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _ENDS,  # Llama 3
        _APART + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _ENDS,  # Qwen 2 and 3
        _APART + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _ENDS,  # Qwen 3.5
        *("'(?i:[sdmt]|ll|ve|re)|" + _CUT % digits for digits in (2, 3)),  # nanochat, GPT-4
        _CASES % (f"{_APART}?", f"{_APART}?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _ENDS,  # GPT-4o, Llama 4
        _CASES % ("", "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _ENDS,  # Mistral NeMo
        r" ?[^(\s|[.,!?…。，、।۔،])]+",  # BLOOM
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|" + _ENDS,  # DeepSeek V3
        *(r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"),  # DeepSeek Coder
        *("[0-9][0-9][0-9]", r"\p{N}{1,3}", r"\p{N}", "[\r\n]", r"[\r\n]", " {2,}", r"\s{2,}|[\n\r\t]", r"\s+", r"\n"),
    ]
)
"""Patterns that many models have: each takes a time linear in the text, and finds nothing empty."""
PLAIN = frozenset(
    [
        *("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents", "Strip", "BertNormalizer", "ByteLevel"),
        *("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits", "UnicodeScripts", "Metaspace"),
        *("ByteFallback", "Fuse", "WordPiece", "BertProcessing", "RobertaProcessing"),
    ]
)
"""Types of parts without a pattern or a text of their own."""
SEVERAL = ("Replace", "Split")
"""Types of which a component may have several: they make no more characters than there are."""
MOST_PIECES, MOST_GROWTH = 8, 16
"""Pieces of a template, and bytes that rules of SentencePiece make of one; 11 are in use."""
LONGEST_WORD = 200
"""Characters of a word that WordPiece splits: the time grows with the cube."""


def is_known(spec: dict[str, Any]) -> bool:
    """Whether a parsed ``tokenizer.json`` is made of parts that published ones have."""
    for component in CHILDREN:
        parts = list(parts_of(spec.get(component), component))
        counts = Counter(str(part.get("type")) for part in parts)
        once = all(count == 1 or kind in SEVERAL for kind, count in counts.items())
        if not (once and len(parts) <= 2 * MOST_PIECES and all(map(_is_known, parts))):
            return False
    word = spec["model"].get("max_input_chars_per_word", 0)
    return type(word) is int and word <= LONGEST_WORD


def _is_known(part: dict[str, Any]) -> bool:
    kind, pattern = str(part.get("type")), part.get("pattern")
    if kind in SEVERAL:
        known = isinstance(pattern, dict) and (pattern.get("String") or str(pattern.get("Regex")) in PUBLISHED)
        return bool(known) and len(str(part.get("content", ""))) <= 1
    if kind == "Prepend":
        return len(str(part.get("prepend"))) <= 1
    if kind == "Precompiled":
        try:
            return charsmap_growth(base64.b64decode(str(part.get("precompiled_charsmap")))) <= MOST_GROWTH
        except (binascii.Error, ValueError):
            return False
    if kind == "TemplateProcessing":
        specials = part.get("special_tokens") or {}  # ``check_tokenizer`` has looked at them
        lists = [part.get("single"), part.get("pair"), *(entry["ids"] for entry in specials.values())]
        return all(isinstance(pieces, list) and len(pieces) <= MOST_PIECES for pieces in lists)
    return kind in PLAIN
