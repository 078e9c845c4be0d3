"""SentencePiece's text normalization: character rules compiled into a trie, and spaces."""

import re
import sys
from array import array
from pathlib import Path

from headway.errors import InputError
from headway.text.sentencepiece.model_file import SPACE, USER_DEFINED, SentencePieceModel

MOST_STEPS = 2**17
"""Steps through the trie that are cached; about ten megabytes."""


class Normalizer:
    """Normalizes text as a model expects: rules applied, longest match first, and spaces written as U+2581."""

    def __init__(self, model: SentencePieceModel) -> None:
        self._model = model
        self._rules = Rules(model.charsmap, model.path) if model.charsmap else None
        whole = sorted(model.of_type.get(USER_DEFINED, []), key=len, reverse=True)
        self._whole = re.compile("|".join(map(re.escape, whole))) if whole else None

    def __call__(self, text: str) -> str:
        if self._rules is not None:
            text = self._apply(text, self._rules)
        if self._model.remove_extra_whitespaces:
            text = re.sub("  +", " ", text.strip(" "))
        if not text:
            return ""
        if self._model.add_dummy_prefix:
            text = " " + text
        if self._model.escape_whitespaces:
            text = text.replace(" ", SPACE)
        if self._model.remove_extra_whitespaces:
            text = text.rstrip(SPACE if self._model.escape_whitespaces else " ")
        return text

    def _apply(self, text: str, rules: "Rules") -> str:
        """Apply the rules, except to user-defined symbols."""
        if self._whole is None:
            return rules(text)
        done, at = [], 0
        for match in self._whole.finditer(text):
            done += [rules(text[at : match.start()]), match[0]]
            at = match.end()
        return "".join([*done, rules(text[at:])])


class Rules:
    """A compiled map from character sequences to their replacements.

    The map consists of the size of a trie in bytes, the trie as a double array of 32-bit units (Aoe, 1989; in the
    layout of the darts-clone library), and the replacements, each ended by a zero byte.  Lookups are cached, so that
    the trie is traversed once per character of the alphabet.  Raises InputError.
    """

    def __init__(self, charsmap: bytes, path: Path) -> None:
        self._where = f"{path}: normalizer_spec.precompiled_charsmap"
        size = int.from_bytes(charsmap[:4], "little")
        room = len(charsmap) - 4
        if size < 1024 or size % 4 or size > room:
            raise InputError(f"{self._where}: size of the trie: found {size}, expected a multiple of 4 up to {room}")
        self._units = array("I", charsmap[4 : 4 + size])
        if sys.byteorder == "big":
            self._units.byteswap()
        self._right = charsmap[4 + size :]
        self._root = self._base(0, self._units[0])
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
            base = self._base(place, unit)
        right = self._right_side(self._units[base] & 0x7FFFFFFF) if unit >> 8 & 1 else None
        self._steps[key] = base, right
        return base, right

    def _base(self, place: int, unit: int) -> int:
        base = place ^ (unit >> 10 << ((unit & 512) >> 6))
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
