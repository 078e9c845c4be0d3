"""BPE dropout (Provilkov et al. 2020): a text is split into different subwords each time it is read.

At every step of splitting a word, each possible merge is skipped with some probability, so that rare subwords and
single letters also occur in training.  It is not used after training.
"""

import heapq
import json
import random
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from headway.errors import InputError
from headway.text.backend import RustBackend
from headway.text.tokenizer import Tokenizer

VARIANTS, KEPT, MOST_KEPT = 16, 40, 1 << 18
"""Random splits of each word of at most this many bytes, of which each reading of the word uses one; how many splits of
all words are kept."""


class BPEDropout:
    """The ids of texts, split differently in every epoch; determined by the texts, the seed and the epoch.

    ``share`` is the probability of skipping a merge; ``keep`` holds the numbers of the words of all texts, in memory or
    on disk.  Raises InputError for a tokenizer without merges.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        texts: Iterable[str],
        share: float,
        seed: int,
        keep: Callable[[Iterable[list[int]]], Iterable[list[int]]] = list,
    ):
        backend = tokenizer.backend
        if not isinstance(backend, RustBackend) or tokenizer.kind != "bpe" or "ByteLevel" not in backend.decoders:
            raise InputError(
                f"--bpe-dropout skips merges of byte-level BPE, and this tokenizer is of kind {tokenizer.kind!r}; "
                "leave out --bpe-dropout, or choose --tokenizer bpe."
            )
        model = json.loads(backend.tokenizer.to_str())["model"]
        self._ranks = {(first, second): rank for rank, (first, second) in enumerate(model["merges"])}
        self._ids: dict[str, int] = model["vocab"]
        self._share, self._seed = share, seed
        words: dict[str, int] = {}
        self._texts = keep([words.setdefault(word, len(words)) for word in backend.words(text)] for text in texts)
        self._words = list(words)
        self._cuts: dict[tuple[int, int], list[int]] = {}
        plain, framed = tokenizer.encode("a"), tokenizer.encode("a", special=True)
        at = next(i for i in range(len(framed)) if framed[i : i + len(plain)] == plain)
        self._before, self._after = framed[:at], framed[at + len(plain) :]

    def encode(self, epoch: int) -> Iterator[list[int]]:
        """The ids of every text in this epoch, with the special tokens around it."""
        choose = np.random.default_rng([self._seed, epoch])
        for words in self._texts:
            ids = list(self._before)
            for word, variant in zip(words, choose.integers(2**31, size=len(words)).tolist(), strict=True):
                ids += self._cut(word, variant)
            yield [*ids, *self._after]

    def _cut(self, word: int, variant: int) -> list[int]:
        letters = self._words[word]
        if len(letters) > KEPT:  # such as a sentence without spaces, which rarely occurs again
            return self._random_cut(letters, variant)
        key = word, variant % VARIANTS
        ids = self._cuts.get(key)
        if ids is None:
            ids = self._random_cut(letters, variant % VARIANTS)
            if len(self._cuts) < MOST_KEPT:
                self._cuts[key] = ids
        return ids

    def _random_cut(self, letters: str, variant: int) -> list[int]:
        choose = random.Random(f"{self._seed} {variant} {letters}")
        return [self._ids[token] for token in cut(letters, self._ranks, self._share, choose)]


def cut(word: str, ranks: dict[tuple[str, str], int], share: float, choose: random.Random) -> list[str]:
    """A word in subwords: merges are made in the order they were learned, but each may be skipped at every step."""
    tokens: list[str | None] = list(word)  # None where a token was merged into the one before it
    after, before = list(range(1, len(tokens) + 1)), list(range(-1, len(tokens) - 1))
    waiting: list[tuple[int, int, str, str]] = []  # merges by rank and position, with their two tokens

    def note(place: int) -> None:
        if place >= 0 and after[place] < len(tokens):
            pair = tokens[place], tokens[after[place]]
            if pair in ranks:
                heapq.heappush(waiting, (ranks[pair], place, *pair))  # type: ignore[misc]

    for place in range(len(tokens)):
        note(place)
    left_out: list[tuple[int, int, str, str]] = []  # in this step
    while waiting:
        merge = heapq.heappop(waiting)
        _, place, first, second = merge
        other = after[place]
        if tokens[place] != first or other == len(tokens) or tokens[other] != second:
            continue  # one of the two is now part of another token
        if choose.random() < share:
            left_out.append(merge)
            continue
        tokens[place], tokens[other] = first + second, None
        after[place] = after[other]
        if after[other] < len(tokens):
            before[after[other]] = place
        note(place)
        note(before[place])
        for merge in left_out:
            heapq.heappush(waiting, merge)
        left_out = []
    return [token for token in tokens if token is not None]
