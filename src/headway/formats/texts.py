"""The texts that a model and its export both read, and whether both make the same ids of them."""

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from headway.formats.differences import NEW
from headway.text.tokenizer import Tokenizer

LONGEST = 48
"""Maximum tokens of a text."""
TOKENIZER = "tokenizer.json"
LINES = 1000
"""Number of lines to tokenize."""
WORDS = (
    *("the", "fox", "isn't", "12:30", "3.14", "x=1;", "(ok)", "<b>", "---", "$5", "a_b", "HTTP/2", "naïve", "Ünïcödé"),
    *("İstanbul", "straße", "ÅNGSTRÖM", "Ελληνικά", "ΣΊΣΥΦΟΣ", "Привет,", "мир!", "שלום", "العربية", "فارسی", "हिन्दी"),
    *("বাংলা", "தமிழ்", "ไทยภาษา", "ქართული", "հայերեն", "አማርኛ", "한국어", "日本語の", "カタカナ", "ｶﾞ", "简体中文。"),
    *("Tiếng", "Việt", "e\u0301", "a\u0308\u0323", "ﬁne", "Ⅳ", "½㎏", "ＡＢＣ", "∑∫≠", "𝔘𝔫𝔦", "\ufffd", "▁a", "##ing"),
)  # fmt: skip
EMOJI = ("🙂", "👍🏽", "👩‍👩‍👧", "🏳️‍🌈", "🇩🇪", "☕️", "⚽", "\u200d", "\ufe0f")
SPACES = (" ", " ", " ", " ", "", "  ", "\t", "\u00a0", "\u2009", "\u3000", "\u200b", "\ufeff", "\u2028", "\r", "    ")
Ids = Sequence[Sequence[int]]
"""Of each text."""


def compare_ids(who: str, texts: Sequence[str], pairs: Iterable[tuple[Ids, Ids]]) -> tuple[bool, str | None]:
    """(Whether all ids are equal, else the problem); each pair has those of all texts, of one program and another."""
    for ours, theirs in pairs:
        for text, one, other in zip(texts, ours, theirs, strict=True):
            if list(one) != list(other):
                return False, f"{who} different ids for {text[:60]!r}"
    return True, None


def same_ids(tokenizer: Tokenizer | None, directory: Path, who: str) -> tuple[bool | None, str | None]:
    """(Whether ``tokenizer.json`` gives the same ids for 1,000 lines, else the problem); None where there is none."""
    if not (directory / TOKENIZER).exists():
        return None, None
    if tokenizer is None:
        return True, None
    theirs, texts = tokenizers.Tokenizer.from_file(str(directory / TOKENIZER)), lines(tokenizer)

    def encoded(special: bool) -> tuple[Ids, Ids]:
        found = theirs.encode_batch(texts, add_special_tokens=special)
        return tokenizer.encode_batch(texts, special=special), [one.ids for one in found]

    return compare_ids(who, texts, map(encoded, (True, False)))


def lines(tokenizer: Tokenizer, wanted: Callable[[str], bool] = lambda _: True) -> list[str]:
    """Lines of mixed scripts, emoji and odd spaces, and lines of the tokenizer's own tokens; none spells a special one.

    Only ``wanted`` lines are among the 1,000.  Other programs read a special token that a text spells as that token;
    Headway reads it as text, so that nobody can insert one by accident or on purpose.
    """
    draw = random.Random(0)
    specials = [token for side in (tokenizer, tokenizer.target) for token in (side.tokens[i] for i in side.special_ids)]
    plain = sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids)
    found: list[str] = []
    while len(found) < LINES:
        if len(found) % 4 == 3:
            text = tokenizer.decode(draw.choices(plain, k=draw.randint(1, 17))).replace("\n", " ")
        else:
            words = (draw.choice(EMOJI if draw.random() < 0.1 else WORDS) for _ in range(draw.randint(0, 11)))
            text = draw.choice(SPACES) + "".join(word + draw.choice(SPACES) for word in words)
        plain_text = not text.lstrip().startswith(">>") and not any(token and token in text for token in specials)
        if plain_text and wanted(text):
            found.append(text)
    return found


def own_texts(tokenizer: Tokenizer, longest: int, count: int) -> list[str]:
    """Texts of a tokenizer's own tokens, ``longest`` of them at most; none spells a special token.

    There may be fewer than ``count``, and of a strange tokenizer none.
    """
    draw = random.Random(0)
    known = ordinary(tokenizer, len(tokenizer.tokens))
    specials = [tokenizer.tokens[number] for number in tokenizer.special_ids]
    found: list[str] = []
    for _ in range(50 * count):
        text = " ".join(tokenizer.decode(draw.choices(known, k=draw.randint(1, longest))).split())
        fits = text and len(tokenizer.encode(text)) <= longest and not text.startswith(">>")
        if fits and not any(token and token in text for token in specials):
            found.append(text)
        if len(found) == count:
            break
    return found


def ordinary(tokenizer: Tokenizer, rows: int) -> list[int]:
    """The ids of tokens that are no special ones and that a model with so many rows knows."""
    tokens = tokenizer.tokens[:rows]
    return [number for number, token in enumerate(tokens) if token and number not in tokenizer.special_ids] or [0]


def room(model: Any, context: int = LONGEST) -> int:
    """The tokens of a text that a model can read, with room for ``NEW`` new ones and the special tokens around it."""
    configs = [model.config, getattr(model, "encoder_config", model.config)]
    return max(1, min(LONGEST, context, *(config.max_length for config in configs)) - NEW - 4)
