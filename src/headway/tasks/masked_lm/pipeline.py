"""Predict the masked words of a text."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headway.errors import InputError, shown
from headway.generation.sampling import check_number
from headway.models.transformer import Encoder
from headway.runtime.runtime import Output
from headway.runtime.windows import frame, framed_around
from headway.tasks.inputs import text_list
from headway.tasks.readers import TextReader
from headway.text.tokenizer import Tokenizer

SPELLINGS = ("[MASK]", "<mask>")
"""How a mask is written in a text, whatever the model's own token is called."""
NOTHING_OPEN = "the text has no [MASK]; write [MASK] where a word is missing."
SPACES = ("Ġ", "▁")
"""How tokens that carry the space before a word begin."""


class MaskFiller(TextReader):
    """An encoder with a masked-token head, its tokenizer, and the ``length`` that its run recorded."""

    task = "masked_lm"

    def __init__(self, model: Encoder, tokenizer: Tokenizer, length: int | None = None):
        if tokenizer.mask is None:
            raise InputError("the tokenizer of this model has no [MASK], so it cannot fill in words.")
        super().__init__(model, tokenizer, length)
        self.mask: int = tokenizer.mask
        spellings = dict.fromkeys((*SPELLINGS, tokenizer.tokens[self.mask]))
        self._spellings = re.compile("|".join(re.escape(spelling) for spelling in spellings))
        self._around = frame(tokenizer)
        self._spaced = any(token.startswith(SPACES) for token in tokenizer.tokens)
        rows = model.config.vocab_size
        known = [bool(token) for token in tokenizer.tokens[:rows]]
        self._offered = torch.tensor([*known, *[False] * (rows - len(known))])
        self._offered[sorted(tokenizer.special_ids)] = False

    def __call__(self, text: str | Iterable[str], *, k: int = 5) -> Any:
        """The ``k`` likeliest tokens for the mask: [{"token", "score"}, ...], best first.

        The mask is written [MASK] or <mask>.  A text with several gives such a list for each, in order; a list of
        texts gives a list of results.  ``score`` is the token's probability among all; special tokens are not offered.
        A token that continues a word is written as the vocabulary has it (##s).  Of a text longer than the model reads,
        the part nearest to each mask is read.  Raises InputError for a text without a mask.
        """
        most = int(self._offered.sum())
        check_number("k", k, 1, 1 << 31, "a whole number, 1 or more", whole=True)
        texts, alone = text_list(text)
        for number, one in enumerate(texts):
            if not self.is_open(one):
                raise InputError(f"text {number}, {shown(one)}: {NOTHING_OPEN}")
        answers = self._answers([self._ids(one) for one in texts], min(k, most))
        results = [places if len(places) > 1 else places[0] for places in answers]
        return results[0] if alone else results

    def is_open(self, text: str) -> bool:
        """Whether a text has an open place."""
        return self._spellings.search(text) is not None

    def count_open(self, text: str) -> int:
        """How many open places a text has."""
        return len(self._spellings.findall(text))

    def ids_of(self, text: str) -> list[int]:
        """The ids of a text, with or without open places, and the frame around them."""
        front, back = self._around
        return [*front, *self._ids(text), *back]

    def _ids(self, text: str) -> list[int]:
        """Ids without the frame.  What spells another special token is text."""
        pieces = self._spellings.split(text)
        if self._spaced:  # the space before a word is part of its token
            pieces = [piece.rstrip(" ") for piece in pieces[:-1]] + pieces[-1:]
        parts: list[str | int] = [pieces[0]]
        for piece in pieces[1:]:
            parts += [self.mask, piece]
        return self.tokenizer.encode_parts(parts)[0]

    def _windows(self, body: list[int]) -> list[tuple[list[int], list[int]]]:
        """What is read of a text, with its open places: all of it, or what is around each place."""
        front, back = self._around
        places = [place for place, token in enumerate(body) if token == self.mask]
        if len(front) + len(body) + len(back) <= self.max_length:
            return [([*front, *body, *back], [len(front) + place for place in places])]
        near = (framed_around(body, place, self._around, self.max_length) for place in places)
        return [(ids, [place]) for ids, place in near]

    def _answers(self, bodies: list[list[int]], k: int) -> list[list[list[dict[str, Any]]]]:
        """For each text, for each of its open places, the ``k`` best tokens."""
        windows = [(owner, *window) for owner, body in enumerate(bodies) for window in self._windows(body)]

        def answer(output: Output, ids: Tensor, mask: Tensor | None, index: np.ndarray) -> tuple[Tensor, Tensor]:
            """The k best of each place, (B, places, k): scores, and ids; what is behind a row's last means nothing."""
            places, chosen = [windows[i][2] for i in index], torch.zeros(ids.shape, dtype=torch.bool)
            for row, each in enumerate(places):
                chosen[row, each] = True
            chosen = chosen.to(ids.device, non_blocking=True)
            scores = output(ids, mask, chosen=chosen).float().softmax(dim=-1)  # (N, V)
            offered = self._offered.to(ids.device, non_blocking=True)
            best = scores.masked_fill(~offered, -1.0).topk(k, dim=-1)
            top, tokens = (pad_sequence(list(part.split([*map(len, places)])), batch_first=True) for part in best)
            return top, tokens

        by_text: list[list[list[dict[str, Any]]]] = [[] for _ in bodies]
        likeliest = self.runtime.read([ids for _, ids, _ in windows], answer)
        for (owner, _, places), best in zip(windows, likeliest, strict=True):
            for scores, tokens in zip(*(part[: len(places)].tolist() for part in best), strict=True):
                pairs = zip(tokens, scores, strict=True)
                by_text[owner].append([{"token": self._shown(one), "score": score} for one, score in pairs])
        return by_text

    def _shown(self, number: int) -> str:
        """A token as it reads in a text, without the space before it."""
        token = self.tokenizer.tokens[number]
        if token.startswith("##") and self.tokenizer.kind == "wordpiece":
            return token
        text = self.tokenizer.decode([number])
        return text.strip() or text or token
