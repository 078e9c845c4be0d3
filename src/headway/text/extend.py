"""Add tokens learned from new texts to a tokenizer; all old ids stay the same, and spell the new tokens."""

import heapq
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tokenizers

from headway.errors import InputError
from headway.text.backend import RustBackend
from headway.text.safe.tokenizer_files import LONGEST_TOKEN
from headway.text.tokenizer import Tokenizer
from headway.text.train import MOST_CHARACTERS, Sample

CONTINUES = "##"
"""WordPiece's prefix of a token that continues a word."""
Pair = tuple[str, str]


@dataclass(frozen=True)
class Extended:
    """An extended tokenizer, its new tokens in the order of their ids, and tokens per word before and after.

    Words are separated by spaces.
    """

    tokenizer: Tokenizer
    added: list[str]
    tokens_per_word_before: float
    tokens_per_word_after: float


def extend(
    tokenizer: Tokenizer,
    texts: Iterable[str],
    n: int,
    *,
    max_characters: int = MOST_CHARACTERS,
    out_of: int | None = None,
) -> Extended:
    """Learn up to ``n`` new tokens from texts, for a tokenizer of kind "bpe" (of bytes) or "wordpiece".

    Training continues where it ended: the most frequent pair of adjacent tokens becomes one token, repeatedly.  A BPE
    gets the new merges, after its own; WordPiece, which uses the longest matching token, gets the tokens, after any
    characters that it lacks.  Texts with fewer such pairs than ``n`` give fewer tokens.  The model's embeddings must
    grow to the new ``vocab_size``.  Raises InputError.
    """
    backend = tokenizer.backend
    if not isinstance(backend, RustBackend) or tokenizer.kind not in ("bpe", "wordpiece"):
        raise InputError(f"tokenizer: found kind {tokenizer.kind!r}, expected 'bpe' or 'wordpiece' to learn new tokens")
    if tokenizer.kind == "bpe" and "ByteLevel" not in backend.decoders:
        raise InputError("tokenizer: found a BPE of characters, expected one of bytes to learn new tokens")
    if n < 1:
        raise InputError(f"new tokens: found {n}, expected at least 1")
    sample = list(Sample(texts, max_characters, out_of=out_of))
    n_words = sum(len(piece.split()) for piece in sample)
    if not n_words:
        raise InputError("there is no text to learn new tokens from: expected at least one word")
    spec = json.loads(backend.tokenizer.to_str())
    counts = Counter(word for piece in sample for word in backend.words(piece))
    added = (_extend_bpe if tokenizer.kind == "bpe" else _extend_wordpiece)(backend.tokenizer, spec, counts, n)
    grown = tokenizer.with_backend(tokenizers.Tokenizer.from_str(json.dumps(spec)))
    before, after = (sum(map(len, each.encode_batch(sample))) / n_words for each in (tokenizer, grown))
    return Extended(grown, added, before, after)


class PairCounts:
    """Words, each a list of tokens with its count; pairs are counted once and then updated (Sennrich et al., 2016)."""

    def __init__(self, words: Iterable[tuple[list[str], int]]) -> None:
        self._words = [(list(tokens), times) for tokens, times in words]
        self._counts: Counter[Pair] = Counter()
        self._rows: defaultdict[Pair, set[int]] = defaultdict(set)
        for row in range(len(self._words)):
            self._tally(row, 1)
        self._queue = [(-times, pair) for pair, times in self._counts.items()]
        heapq.heapify(self._queue)

    def best(self) -> Pair | None:
        """The most frequent pair that may be a token, the first in order of several; None when no pair occurs twice."""
        while self._queue:
            times, pair = self._queue[0]
            if -times == self._counts[pair] and len("".join(pair).encode()) <= LONGEST_TOKEN:
                return pair if -times > 1 else None
            heapq.heappop(self._queue)
        return None

    def join(self, first: str, second: str, joined: str) -> None:
        """Replace a pair by one token wherever it occurs."""
        touched: set[Pair] = set()
        for row in sorted(self._rows[first, second]):
            touched |= self._tally(row, -1)
            tokens, times = self._words[row]
            new: list[str] = []
            for token in tokens:
                if new and new[-1] == first and token == second:
                    new[-1] = joined
                else:
                    new.append(token)
            self._words[row] = new, times
            touched |= self._tally(row, 1)
        for pair in touched:
            if self._counts[pair] > 0:
                heapq.heappush(self._queue, (-self._counts[pair], pair))
        self._counts[first, second] = 0
        del self._rows[first, second]

    def _tally(self, row: int, sign: int) -> set[Pair]:
        tokens, times = self._words[row]
        pairs = list(itertools.pairwise(tokens))
        for pair in pairs:
            self._counts[pair] += sign * times
            if sign > 0:
                self._rows[pair].add(row)
            else:
                self._rows[pair].discard(row)
        return set(pairs)


def _extend_bpe(backend: tokenizers.Tokenizer, spec: dict[str, Any], counts: Counter[str], n: int) -> list[str]:
    vocabulary = _whole_vocabulary(spec)
    words = PairCounts(
        (([token.value for token in backend.model.tokenize(word)], times) for word, times in counts.items())
    )
    added: list[str] = []
    while len(added) < n and (best := words.best()) is not None:
        first, second = best
        if first + second not in vocabulary:
            added.append(first + second)
            vocabulary[first + second] = len(vocabulary)
        spec["model"]["merges"].append([first, second])
        words.join(first, second, first + second)
    return added


def _extend_wordpiece(backend: tokenizers.Tokenizer, spec: dict[str, Any], counts: Counter[str], n: int) -> list[str]:
    vocabulary = _whole_vocabulary(spec)
    unknown, prefix = spec["model"]["unk_token"], spec["model"]["continuing_subword_prefix"]
    longest = spec["model"]["max_input_chars_per_word"]
    split: list[tuple[list[str], int]] = []
    strange: list[tuple[list[str], int]] = []
    for word, times in counts.items():
        tokens = [token.value for token in backend.model.tokenize(word)]
        if unknown not in tokens:
            split.append((tokens, times))
        elif len(word) <= longest:
            strange.append(([word[0], *(prefix + character for character in word[1:])], times))
    missing: Counter[str] = Counter()
    for tokens, times in strange:
        missing.update({token: times for token in tokens if token not in vocabulary})
    added = [token for token, times in sorted(missing.items(), key=lambda row: (-row[1], row[0])) if times > 1][:n]
    known = vocabulary.keys() | set(added)
    words = PairCounts([*split, *(row for row in strange if known >= set(row[0]))])
    while len(added) < n and (best := words.best()) is not None:
        joined = best[0] + best[1].removeprefix(prefix)
        if joined not in known:
            added.append(joined)
            known.add(joined)
        words.join(*best, joined)
    for token in added:
        vocabulary[token] = len(vocabulary)
    return added


def _whole_vocabulary(spec: dict[str, Any]) -> dict[str, int]:
    """The model's vocabulary including the added tokens, so that new ids follow all old ones."""
    vocabulary: dict[str, int] = spec["model"]["vocab"]
    for row in spec["added_tokens"]:
        vocabulary.setdefault(row["content"], row["id"])
    if max(vocabulary.values()) != len(vocabulary) - 1:
        raise InputError(
            f"vocabulary: found {len(vocabulary)} tokens and the id {max(vocabulary.values())}, "
            "expected ids without a gap to put new ones after"
        )
    return vocabulary


def merged_from(old: Tokenizer, new: Tokenizer) -> dict[int, list[int]]:
    """For the id of each token that only ``new`` has: the ids of the old tokens that spell it.

    The list is empty for a special token, and for a character that the old vocabulary lacks.
    """
    added = range(old.vocab_size, new.vocab_size)
    return {number: [] if number in new.special_ids else _parts(old, new.tokens[number]) for number in added}


def _parts(old: Tokenizer, token: str) -> list[int]:
    backend = old.backend
    if not isinstance(backend, RustBackend) or not token:
        return []
    if old.kind == "wordpiece":
        return _pieces(backend.vocabulary, token)
    return [part.id for part in backend.tokenizer.model.tokenize(token) if part.id != old.unknown]


def _pieces(vocabulary: dict[str, int], token: str) -> list[int]:
    """The longest matching old piece, repeatedly, as WordPiece splits a word; empty where no piece matches."""
    inside = token.startswith(CONTINUES)
    rest, pieces = token.removeprefix(CONTINUES), []
    while rest:
        prefix = CONTINUES if inside else ""
        length = next((n for n in range(len(rest), 0, -1) if prefix + rest[:n] in vocabulary), 0)
        if not length:
            return []
        pieces.append(vocabulary[prefix + rest[:length]])
        rest, inside = rest[length:], True
    return pieces
