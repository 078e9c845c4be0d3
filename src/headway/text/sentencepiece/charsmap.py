"""SentencePiece's character rules: a map from sequences of characters to their replacements, compiled into a trie.

The map consists of the size of the trie in bytes, the trie as a double array of 32-bit units (Aoe, 1989; in the layout
of the darts-clone library), and the replacements, each ended by a zero byte.
"""

import sys
from array import array
from bisect import bisect_left

from headway.errors import InputError

MOST_STEPS = 2**17
"""Steps through the trie that are cached; about ten megabytes."""
MOST_GROWTH = 256
"""Limit of bytes from one byte by the rules.  In use: 11."""
LEAST = 1024
"""The bytes of the smallest trie that the library writes."""


class Rules:
    """The rules, applied to text, longest match first.

    Lookups are cached, so that the trie is traversed once per character of the alphabet.  Raises InputError, its
    message beginning with ``where``.
    """

    def __init__(self, charsmap: bytes, where: str) -> None:
        self._where = where
        size, self._units, self._right = _parts(charsmap)
        if size < LEAST or not self._units:
            room = len(charsmap) - 4
            raise InputError(f"{where}: size of the trie: found {size}, expected a multiple of 4 up to {room}")
        self._root = self._base(0)
        self._steps: dict[tuple[int, str], tuple[int, str | None] | None] = {}

    def __call__(self, text: str) -> str:
        done: list[str] = []
        steps, root = self._steps, self._root
        at, end = 0, len(text)
        while at < end:
            new, after = text[at], at + 1
            base, here = root, at
            while here < end:
                key = (base, text[here])
                step = steps[key] if key in steps else self._step(key)
                if step is None:
                    break
                base, right = step
                here += 1
                if right is not None:
                    new, after = right, here
            done.append(new)
            at = after
        return "".join(done)

    def _step(self, key: tuple[int, str]) -> tuple[int, str | None] | None:
        """(the node one character further, the replacement if a rule ends there); None where no rule continues."""
        base, character = key
        unit = 0
        if len(self._steps) >= MOST_STEPS:
            self._steps.clear()
        for byte in character.encode("utf-8", "replace"):
            place = base ^ byte
            unit = self._units[place] if place < len(self._units) else 0
            if unit & 0x800000FF != byte or not byte:
                self._steps[key] = None
                return None
            base = self._base(place)
        right = self._right_side(self._units[base] & 0x7FFFFFFF) if unit >> 8 & 1 else None
        self._steps[key] = base, right
        return base, right

    def _base(self, place: int) -> int:
        base = _base(self._units, place)
        if base >= len(self._units):
            raise InputError(f"{self._where}: place in the trie: found {base}, expected below {len(self._units)}")
        return base

    def _right_side(self, at: int) -> str:
        end = self._right.find(b"\0", at)
        try:
            if end >= 0:
                return self._right[at:end].decode("utf-8")
        except UnicodeDecodeError:
            pass
        raise InputError(f"{self._where}: found byte {at} for a replacement, expected the start of UTF-8 text")


def charsmap_growth(charsmap: bytes) -> float:
    """The most bytes that one byte may become by the rules; 1 for rules that cannot be read.

    The trie is traversed from its root, shortest paths first.
    """
    _, units, texts = _parts(charsmap)
    if not units:
        return 1.0
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
        below = set()
        for base in level:
            for place in children.get(base, ()):
                after = _base(units, place)
                below.add(after)
                if units[place] >> 8 & 1 and after < len(units):
                    start = units[after] & 0x7FFFFFFF
                    end = bisect_left(ends, start)
                    length = (ends[end] if end < len(ends) else len(texts)) - start
                    most = max(most, length / depth)
        level = below - seen
    return most


def _parts(charsmap: bytes) -> tuple[int, "array[int]", bytes]:
    """(the size of the trie in bytes, its units, the replacements); no units where the size cannot be."""
    size = int.from_bytes(charsmap[:4], "little")
    fits = 0 < size <= len(charsmap) - 4 and size % 4 == 0
    units = array("I", charsmap[4 : 4 + size] if fits else b"")
    if sys.byteorder == "big":
        units.byteswap()
    return size, units, charsmap[4 + size :]


def _base(units: "array[int]", place: int) -> int:
    """Where the children of a node begin."""
    unit = units[place]
    return place ^ (unit >> 10 << ((unit & 512) >> 6))
