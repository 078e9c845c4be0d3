"""The parts of a ``tokenizer.json``, and limits of what it and a SentencePiece model may hold."""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.errors import InputError

MOST_GROWTH = 256
"""Limit of bytes from one byte by the rules of SentencePiece.  In use: 11."""
MOST_ADDED = 2**16
"""Limit of added tokens.  The largest vocabularies in use have a few thousand."""
LONGEST_TOKEN = 4096
"""Limit of bytes in a token.  The longest in use are a thousand spaces."""

CHILDREN = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}


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
    if (growth := charsmap_growth(charsmap)) > MOST_GROWTH:
        raise InputError(
            f"{where}: makes texts longer, up to {growth:.0f} bytes of one; expected at most {MOST_GROWTH}; "
            "use the tokenizer that was published with the model"
        )


def _base(units: "array[int]", place: int) -> int:
    unit = units[place]
    return place ^ (unit >> 10 << ((unit & 512) >> 6))


def check_tokens(spec: dict[str, Any], path: Path) -> None:
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


def _size(text: Any) -> int:
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0
