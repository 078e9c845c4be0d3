"""The result of comparing an export with its original, and by how much answers may differ."""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, nn

from headway.hub.download import one_line
from headway.models.heads import Gives, gives, n_outputs
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


BOUND = 1e-4
"""The largest difference between logits, scores and vectors in float32."""
NEW = 8
"""Tokens that are written for each text."""


def worst(value: float, differences: Tensor | float) -> float:
    """The largest so far; NaN is larger than any number."""
    if isinstance(differences, Tensor):
        differences = float(differences.abs().max()) if differences.numel() else 0.0
    return max(value, differences, key=lambda each: (each != each, each))


def behind(logits: Tensor, chosen: Tensor) -> Tensor:
    """How much lower the logits of the chosen tokens (T,) are than the highest of ``logits`` (T, V)."""
    return logits.max(dim=-1).values - logits.gather(1, chosen[:, None])[:, 0]


def has_units(model: Any) -> bool:
    """Whether outputs are in units of their own: one number, or several label columns with numbers among them."""
    return gives(model) is Gives.ROW and (n_outputs(model) == 1 or model.head.scale is not None)


def units_of(model: nn.Module, outputs: Tensor) -> Tensor:
    """What differences of outputs (N, ...) are relative to: 1; of outputs with units the largest of each, (C,)."""
    return outputs.abs().amax(dim=0).clamp(min=1.0) if has_units(model) else torch.ones(())


def magnitude(values: Tensor) -> float:
    """The root mean square of logits or vectors, and 1 at least: float32 errors grow with the size of numbers."""
    return max(1.0, float(values.float().square().mean().sqrt()))


def exceeding(difference: float, bound: float | None, what: str) -> list[str]:
    """The problem that ``what`` differs by more than the bound, if it does; without a bound, if it is no number."""
    if math.isfinite(difference) and (bound is None or difference <= bound):
        return []
    return [f"{what} by {difference:.3g}" + ("" if bound is None else f", more than {bound:g}")]


@dataclass(frozen=True)
class Parity:
    """The result of a comparison."""

    max_difference: float | None = None
    """the largest difference between two answers, NaN if one is not a number; None: not compared"""
    over: str = ""
    """the inputs that ``max_difference`` was taken over, in words"""
    bound: float | None = BOUND
    """the largest difference that passes; None: it is only reported, as with a lower precision"""
    tokens_equal: bool | None = None
    """whether every line gave the same ids; None: not compared"""
    agreement: tuple[int, int] | None = None
    """how many answers (greedy tokens, labels) are equal, of how many; None: not counted"""
    problem: str | None = None
    """what differs, or why nothing was compared"""
    reader: str = "transformers"
    """the program that read the export"""
    version: str | None = None
    """of ``reader``; None: nothing was compared"""
    needs: str = "transformers"
    """the package to install or upgrade if nothing was compared"""
    door: str | None = None
    """how the export was opened, as a user writes it"""
    seconds: tuple[float, float] | None = None
    """how long Headway and the reader took for the same answers; None: not timed"""
    notes: tuple[str, ...] = ()
    """further facts about the export, a sentence each"""

    @property
    def checked(self) -> bool:
        """Whether there was a program that reads such exports."""
        return self.version is not None

    @property
    def passed(self) -> bool:
        """Whether everything that was compared agrees."""
        return self.problem is None and self.checked

    def holding(self, found: "Parity", *problems: str | None, **more: Any) -> "Parity":
        """What a comparison ``found`` of the export that this names, with all ``problems`` of it, and fields."""
        named = {name: getattr(self, name) for name in ("reader", "version", "needs", "door")}
        return replace(found, **named, problem="; ".join(filter(None, problems)) or None, **more)

    def unusable(self, error: Exception, through: str | None = None) -> "Parity":
        """The result where opening or asking the export failed, ``through`` something else than its door."""
        return replace(self, problem=f"{through or self.door} cannot use it: {one_line(error)}")

    @property
    def words(self) -> str:
        """What was compared and found, in one sentence without its full stop."""
        parts = []
        if self.max_difference is not None:
            most = "" if self.bound is None else f" (at most {self.bound:.2g})"
            parts.append(f"max_difference {self.max_difference:.2g} over {self.over}{most}")
        if self.agreement is not None:
            parts.append(f"{self.agreement[0]:,} of {self.agreement[1]:,} answers equal")
        if self.tokens_equal:
            parts.append(f"the same ids for {LINES:,} lines")
        return ", ".join(parts)
