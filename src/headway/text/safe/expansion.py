"""How much longer a tokenizer can make a text, computed from its file alone, before the tokenizer is used.

The parts of a ``tokenizer.json`` that rewrite text are chosen by its author: forty replacements of ``a`` by ``aa`` turn
one letter into a terabyte.  Each part turns n bytes into at most ``times * n + more``; a pipeline composes these
bounds.
"""

import base64
import binascii
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError

MOST_GROWTH = 256
"""Limit of bytes from one byte.  In use: 11 by the rules of SentencePiece, times 16 for spaces as U+2581."""
MOST_TOKENS = 64
"""Limit of tokens from one token, including the special tokens around it."""
MOST_PARTS = 64
"""Limit of parts in a normalizer or another component.  The largest in use have about ten."""
MOST_CHARACTERS = 4096
"""Limit of characters in a part's strings: a pattern, its replacement, a prefix."""
MOST_ADDED = 2**16
"""Limit of added tokens.  The largest vocabularies in use have a few thousand."""
LONGEST_TOKEN = 4096
"""Limit of bytes in a token.  The longest in use are a thousand spaces."""
LONGEST_WORD = 10_000
"""Limit of characters in a word that WordPiece splits: the time grows with the cube."""

CHILDREN = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
_FORMS = {"NFC": 3.0, "NFD": 3.0, "NFKC": 11.0, "NFKD": 11.0, "BertNormalizer": 8.0, "Lowercase": 1.5}
"""How much Unicode normalization lengthens a text, in UTF-8: U+FDFA has 3 bytes, and 33 when decomposed."""
_FIXED = {"BPEDecoder": 2.0, "CTC": 2.0, "WordPiece": 2.0, "ByteFallback": 3.0}


@dataclass(frozen=True)
class Growth:
    """A bound: n bytes become at most ``times * n + more``."""

    times: float = 1.0
    more: float = 0.0

    def then(self, times: float, more: float = 0.0) -> "Growth":
        """The bound of this part followed by another."""
        return Growth(self.times * times, self.more * times + more)

    @property
    def of_one(self) -> float:
        """The bound for a text of one byte."""
        return self.times + self.more


def check_growth(spec: dict[str, Any], path: Path) -> None:
    """Refuse a parsed ``tokenizer.json`` that could make a text too long.  Raises InputError naming the part."""
    rewritten = Growth()
    for name in ("normalizer", "pre_tokenizer"):  # the second reads the output of the first
        rewritten = _of_parts(spec.get(name), name, rewritten, path)
    _of_parts(spec.get("decoder"), "decoder", Growth(), path)
    _check_templates(spec.get("post_processor"), path)
    _check_tokens(spec, path)


def parts_of(value: Any, component: str) -> Iterator[dict[str, Any]]:
    """The parts of a component, such as a normalizer, that do the work, in order."""
    if not isinstance(value, dict):
        return
    inside = value.get(CHILDREN[component]) if value.get("type") == "Sequence" else None
    if isinstance(inside, list):
        for child in inside:
            yield from parts_of(child, component)
    else:
        yield value


def charsmap_growth(charsmap: bytes) -> float:
    """The most bytes that one byte may become by the rules of a SentencePiece model; 1 for rules that cannot be read.

    The trie (a Darts double array) is traversed from its root, shortest paths first.
    """
    size = int.from_bytes(charsmap[:4], "little")
    if size < 4 or size % 4 or size > len(charsmap) - 4:
        return 1.0
    units = array("I", charsmap[4 : 4 + size])
    if sys.byteorder == "big":
        units.byteswap()
    texts = charsmap[4 + size :]
    ends = [place for place, byte in enumerate(texts) if not byte]
    children: dict[int, list[int]] = {}
    for place, unit in enumerate(units):
        if not unit >> 31 and unit & 0xFF:
            children.setdefault(place ^ (unit & 0xFF), []).append(place)
    most, depth = 1.0, 0
    seen: set[int] = set()
    level = {_base(units, 0)}
    while level:
        depth += 1
        seen |= level
        found = set()
        for base in level:
            for place in children.get(base, ()):
                after = _base(units, place)
                found.add(after)
                if units[place] >> 8 & 1 and after < len(units):
                    start = units[after] & 0x7FFFFFFF
                    end = bisect_left(ends, start)
                    length = (ends[end] if end < len(ends) else len(texts)) - start
                    most = max(most, length / depth)
        level = found - seen
    return most


def check_charsmap(charsmap: bytes, where: str) -> None:
    """Refuse rules of a SentencePiece model that could make a text too long.  Raises InputError."""
    _check(Growth(charsmap_growth(charsmap)), where, "bytes", MOST_GROWTH)


def _base(units: "array[int]", place: int) -> int:
    unit = units[place]
    return place ^ (unit >> 10 << ((unit & 512) >> 6))


def _of_parts(value: Any, component: str, growth: Growth, path: Path) -> Growth:
    formed = False
    for part in _checked_parts(value, component, path):
        times, more = _of_part(part, component, path)
        if str(part.get("type")) in _FORMS:  # the first reads a person's text; a later one reads what the file put there
            times, formed = times if formed or growth.of_one > 1 else 1.0, True
        growth = growth.then(times, more)
        _check(growth, f"{path}: {component}", "bytes", MOST_GROWTH)
    return growth


def _of_part(part: dict[str, Any], component: str, path: Path) -> tuple[float, float]:
    """The bound (times, more) of a part."""
    kind = part.get("type")
    if kind == "Prepend":
        return 1.0, _size(part.get("prepend"))
    if kind == "Replace":
        pattern, content = part.get("pattern"), _size(part.get("content"))
        sought = _size(pattern.get("String")) if isinstance(pattern, dict) else 0
        return (max(1.0, content / sought) if sought else 1.0 + content), 0.0
    if kind == "Precompiled":
        try:
            return charsmap_growth(base64.b64decode(str(part.get("precompiled_charsmap")))), 0.0
        except (binascii.Error, ValueError):
            raise InputError(f"{path}: {component}: precompiled_charsmap is not base64; save it again") from None
    if kind == "ByteLevel":  # a byte becomes a character of up to two bytes
        return 3.0 if part.get("add_prefix_space") or component == "decoder" else 2.0, 0.0
    if kind == "Metaspace" and component == "pre_tokenizer":
        return 1.0 + _size(part.get("replacement")), 0.0
    fixed = _FORMS if component == "normalizer" else _FIXED if component == "decoder" else {}
    return fixed.get(str(kind), 1.0), 0.0


def _check_templates(value: Any, path: Path) -> None:
    """A template may insert the text more than once, and so may the next one."""
    growth = Growth()
    for part in _checked_parts(value, "post_processor", path):
        if part.get("type") != "TemplateProcessing":
            growth = growth.then(1.0, 4.0)
            continue
        specials = part.get("special_tokens")
        sizes = {
            name: len(entry["ids"])
            for name, entry in (specials.items() if isinstance(specials, dict) else ())
            if isinstance(entry, dict) and isinstance(entry.get("ids"), list)
        }
        most = Growth()
        for name in ("single", "pair"):
            template = part.get(name)
            pieces = [piece for piece in template if isinstance(piece, dict)] if isinstance(template, list) else []
            named = [piece["SpecialToken"] for piece in pieces if isinstance(piece.get("SpecialToken"), dict)]
            more = sum(sizes.get(str(token.get("id")), 0) for token in named)
            texts = [str(piece["Sequence"].get("id")) for piece in pieces if isinstance(piece.get("Sequence"), dict)]
            times = max([1, *(texts.count(text) for text in set(texts))])
            most = Growth(max(most.times, times), max(most.more, more))
        growth = growth.then(most.times, most.more)
        _check(growth, f"{path}: post_processor", "tokens", MOST_TOKENS)


def _check_tokens(spec: dict[str, Any], path: Path) -> None:
    """Refuse a vocabulary with very long tokens or very many added tokens."""
    model, added = spec.get("model"), spec.get("added_tokens")
    if not isinstance(model, dict):
        return
    if isinstance(added, list) and len(added) > MOST_ADDED:
        raise InputError(f"{path}: added_tokens: found {len(added)}, expected at most {MOST_ADDED}")
    vocabulary = model.get("vocab")
    tokens = list(vocabulary) if isinstance(vocabulary, dict) else []
    if isinstance(vocabulary, list):
        tokens = [row[0] for row in vocabulary if isinstance(row, list) and row]
    tokens += [row.get("content") for row in added if isinstance(row, dict)] if isinstance(added, list) else []
    longest = max((token for token in tokens if isinstance(token, str)), key=len, default="")
    if _size(longest) > LONGEST_TOKEN:
        raise InputError(f"{path}: a token has {_size(longest)} bytes, expected at most {LONGEST_TOKEN}")
    word = model.get("max_input_chars_per_word", 0)
    if type(word) is int and word > LONGEST_WORD:
        raise InputError(
            f"{path}: model.max_input_chars_per_word: found {word}, expected at most {LONGEST_WORD}: "
            "the time for a word grows with its cube"
        )


def _checked_parts(value: Any, component: str, path: Path) -> list[dict[str, Any]]:
    """The parts of a component.  Raises InputError for too many parts, or for strings that are too long."""
    found = list(parts_of(value, component))
    if len(found) > MOST_PARTS:
        raise InputError(f"{path}: {component}: found {len(found)} parts, expected at most {MOST_PARTS}")
    for part in found:
        for key, text in part.items():
            texts = [text, *text.values()] if isinstance(text, dict) else [text]
            longest = max((len(one) for one in texts if isinstance(one, str)), default=0)
            if longest > MOST_CHARACTERS and key != "precompiled_charsmap":
                kind = str(part.get("type"))[:40]
                raise InputError(
                    f"{path}: {component}: {kind}.{key[:40]}: found {longest} characters, "
                    f"expected at most {MOST_CHARACTERS}"
                )
    return found


def _check(growth: Growth, where: str, what: str, most: int) -> None:
    if growth.of_one > most:
        grown = f"{growth.of_one:.0f}" if growth.of_one < 1e6 else f"{growth.of_one:.1e}"
        raise InputError(
            f"{where}: makes texts longer, up to {grown} {what} of one; expected at most {most}; "
            "use the tokenizer that was published with the model"
        )


def _size(text: Any) -> int:
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0
