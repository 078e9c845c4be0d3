"""A model that reads everything again for each token: slow, and the reference for the cache.

``generation`` uses both in place of a model, so that its own loop is checked.

Letters: B batch, T length, V vocabulary.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from headway.data.batches.batching import sent
from headway.generation.conditional import Conditional
from headway.workflows.verify.check import difference, worst

TIE = 1e-5
"""Two tokens whose logits are this close count as equally likely: rounding decides between them."""


class Read:
    """Everything read so far: the ids of each row (B, T), which of them are tokens, and the row's original index."""

    def __init__(self) -> None:
        self.ids = self.mask = self.rows = torch.empty(0, dtype=torch.int64)

    def extend(self, ids: Tensor, mask: Tensor | None) -> None:
        """Append (B, T) ids."""
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        if self.ids.numel():
            ids, mask = torch.cat([self.ids, ids], dim=1), torch.cat([self.mask, mask], dim=1)
        else:
            self.rows = torch.arange(len(ids), device=ids.device)
        self.ids, self.mask = ids, mask

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows, in that order."""
        self.ids, self.mask, self.rows = self.ids[rows], self.mask[rows], self.rows[rows]


class Uncached:
    """A decoder, or an encoder-decoder with its sources, without its cache."""

    def __init__(self, model: Any):
        self.model = model

    def new_state(self) -> Read:
        return Read()

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """Logits (B, V) of the next token of each row, from everything read so far."""
        state.extend(ids, mask)
        seen = None if bool(state.mask.all()) else state.mask
        if not isinstance(self.model, Conditional):
            return self.model.next_logits(state.ids, seen)
        given = self.model
        across = None if given.source_mask is None else given.source_mask[state.rows]
        return given.model.next_logits(state.ids, given.source[state.rows], across, None, seen)


class Both:
    """The states of a model with its cache and without."""

    def __init__(self, cached: Any, uncached: Read):
        self.cached, self.uncached = cached, uncached

    def reorder(self, rows: Tensor) -> None:
        self.cached.reorder(rows)
        self.uncached.reorder(rows)


class Compared:
    """A model with its cache, whose every answer is compared with the same model without."""

    def __init__(self, model: Any, forbidden: Collection[int] = ()):
        self.model, self.uncached, self.forbidden = model, Uncached(model), list(forbidden)
        self.difference, self.largest = 0.0, 0.0
        self.tokens, self.tokens_equal = 0, True

    def new_state(self) -> Both:
        return Both(self.model.new_state(), self.uncached.new_state())

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """Logits (B, V) with the cache."""
        found = self.model.next_logits(ids, mask, state.cached)
        expected = self.uncached.next_logits(ids, mask, state.uncached)
        self.difference = worst(self.difference, difference(found, expected))
        self.largest = max(self.largest, float(expected.abs().max()))
        self.tokens += len(found)
        self.tokens_equal = self.tokens_equal and self._same_tokens(found, expected)
        return found

    def _same_tokens(self, found: Tensor, expected: Tensor) -> bool:
        """Whether the most likely token of each row is the same, or equally likely up to rounding."""
        never = sent(self.forbidden, found.device)
        found, expected = (logits.index_fill(1, never, float("-inf")) for logits in (found.float(), expected.float()))
        chosen, best = found.argmax(dim=-1, keepdim=True), expected.amax(dim=-1, keepdim=True)
        return bool((expected.gather(1, chosen) >= best - TIE).all())
