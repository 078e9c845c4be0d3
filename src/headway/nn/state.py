"""What a model remembers between calls when it reads a sequence piece by piece: the key-value cache.

Letters: B batch, G key-value heads, S tokens so far, K head width.
"""

import torch
from torch import Tensor

from headway.nn.masks import token_positions


class KeyValueCache:
    """The keys and values of one attention layer, for the tokens read so far.

    Capacity grows by doubling, so appending n tokens one by one copies O(n) numbers and not O(n²).
    """

    def __init__(self) -> None:
        self.length = 0
        self._keys: Tensor | None = None  # (B, G, capacity, K), of which the first ``length`` are filled
        self._values: Tensor | None = None

    @property
    def rows(self) -> int:
        """The number of sequences B."""
        return 0 if self._keys is None else len(self._keys)

    @property
    def device(self) -> torch.device | None:
        """The device of the keys; None when there are none."""
        return None if self._keys is None else self._keys.device

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add (B, G, T, K) keys and values; return all so far, (B, G, S, K)."""
        end = self.length + keys.shape[2]
        if self._keys is None or self._values is None or end > self._keys.shape[2]:
            self._keys = self._grow(self._keys, keys, end)
            self._values = self._grow(self._values, values, end)
        self._keys[:, :, self.length : end] = keys
        self._values[:, :, self.length : end] = values
        self.length = end
        return self.read()

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values so far, each (B, G, S, K).  Raises ValueError when there are none."""
        if self._keys is None or self._values is None:
            raise ValueError("the cache is empty: append keys and values first")
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in that order; rows may repeat or be left out.

        ``rows`` is (B',) int64, on the CPU or where the keys are.
        """
        if self._keys is not None and self._values is not None:
            rows = rows.to(self._keys.device)
            self._keys, self._values = self._keys.index_select(0, rows), self._values.index_select(0, rows)

    def _grow(self, old: Tensor | None, new: Tensor, needed: int) -> Tensor:
        room = max(needed, 2 * self.length, 16)
        grown = new.new_zeros(new.shape[0], new.shape[1], room, new.shape[3])
        if old is not None:
            grown[:, :, : self.length] = old[:, :, : self.length]
        return grown


class State:
    """What a Transformer decoder remembers: a cache per layer, and which cached tokens are real.

    ``mask`` (B, S) is true where there is a token, or None as long as there is no padding.
    """

    def __init__(self, n_layers: int):
        self.layers = [KeyValueCache() for _ in range(n_layers)]
        self.cross = [KeyValueCache() for _ in range(n_layers)]  # keys and values of the source, computed once
        self.source_mask: Tensor | None = None  # (B, S)
        self.mask: Tensor | None = None
        self._readers = 1  # how many consecutive rows read each cached source: the hypotheses of a beam

    @property
    def length(self) -> int:
        """The number of tokens read, padding included."""
        return self.layers[0].length

    def place(
        self, mask: Tensor | None, batch: int, length: int, device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Make room for the next ``length`` tokens, of which ``mask`` (B, T) are real; None means all.

        Returns the positions of these tokens (B or 1, T) and of all (B or 1, S), and which of all are real: (B, S) or
        None.
        """
        start = self.length
        self.extend_mask(mask, batch, length, device)
        everything = torch.arange(start + length, device=device)[None]  # (1, S)
        keys = everything if self.mask is None else token_positions(self.mask)  # (B or 1, S)
        return keys[:, start:], keys, self.mask

    def extend_mask(self, mask: Tensor | None, batch: int, length: int, device: torch.device) -> None:
        """Record which of the next ``length`` tokens are real; None means all."""
        if mask is None and self.mask is None:
            return
        before = self.mask if self.mask is not None else torch.ones(batch, self.length, dtype=torch.bool, device=device)
        now = mask if mask is not None else torch.ones(batch, length, dtype=torch.bool, device=device)
        self.mask = torch.cat([before, now], dim=1)  # (B, S + T)

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in that order: what beam search and finished prompts need.

        ``rows`` is (B',) int64; on the CPU the rows are compared there, so no accelerator has to be waited for.
        """
        there = rows.to(device=self.layers[0].device)
        for cache in self.layers:
            cache.reorder(there)
        if self.mask is not None:
            self.mask = self.mask[there]
        if not self.cross[0].length:
            return
        cached = torch.arange(self.cross[0].rows, device=rows.device)
        read = cached.repeat_interleave(self._readers)[rows]  # which cached source each row reads
        kept = read.unique_consecutive()
        self._readers = max(1, len(read) // max(1, len(kept)))
        if not torch.equal(kept.repeat_interleave(self._readers), read):
            kept, self._readers = read, 1
        if torch.equal(kept, cached):
            return
        kept = kept.to(device=self.cross[0].device)
        for cache in self.cross:
            cache.reorder(kept)
        if self.source_mask is not None:
            self.source_mask = self.source_mask[kept]
