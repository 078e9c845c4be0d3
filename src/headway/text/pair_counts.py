"""Words as token lists, and counts of adjacent token pairs (Sennrich et al., 2016)."""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable

from headway.text.safe.expansion import LONGEST_TOKEN

Pair = tuple[str, str]


class PairCounts:
    """Words, each a list of tokens with its count; pairs are counted once and then updated."""

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
