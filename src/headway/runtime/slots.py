"""What a decoder remembers of texts of different lengths that begin and end at different times.

    state = SlotState(n_layers)
    state.join(read)            # the texts that an ordinary state has read take the next slots
    model.next_logits(ids, None, state)     # (n, 1) -> (n, V): one more token of each
    state.leave(slot)           # the last text moves into its slot

Every text has a slot, a row of the cache, in which its tokens begin at the first column.  So nothing of the others is
copied when one joins, and one row when one leaves.

Letters: N slots, G key-value heads, S tokens of the longest text, K head width.
"""

from typing import Any

import torch
from torch import Tensor

from headway.nn.state import KeyValueCache, State

BLOCK = 64
"""Room for tokens is a multiple of this; it doubles, so that what is copied grows with the tokens and not faster."""


class SlotState(State):
    """A state whose rows have lengths of their own; each call reads one token of each."""

    def __init__(self, n_layers: int):
        super().__init__(n_layers)
        self.lengths: list[int] = []
        """the number of tokens of each slot's text"""
        self._now: list[int] = []  # the lengths at the call that is under way
        self.layers: list[Any] = [SlotCache(self) for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """The number of tokens of the longest text."""
        return max(self.lengths, default=0)

    def place(
        self, mask: Tensor | None, batch: int, length: int, device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """As of every state; ``length`` is 1, and ``mask`` is None.  Raises ValueError for anything else."""
        if length != 1 or mask is not None or batch != len(self.lengths):
            raise ValueError(f"{batch} texts of {length} tokens for {len(self.lengths)} slots: give one token of each")
        self._now, self.lengths = self.lengths, [one + 1 for one in self.lengths]
        keys = torch.arange(self.length, device=device)[None]  # (1, S)
        if len(set(self._now)) == 1:
            return keys[:, -1:], keys, None
        queries = torch.tensor(self._now).to(device, non_blocking=True)[:, None]  # (N, 1)
        return queries, keys, keys <= queries

    def join(self, read: State) -> None:
        """Give the texts of all rows of another state the next slots; padding on their left is left out."""
        first, lengths = len(self.lengths), [read.length]
        if read.mask is None:
            lengths *= read.layers[0].rows
        else:
            lengths = read.mask.sum(dim=1).tolist()
        self.lengths += lengths
        shifted = None
        if len(set(lengths)) > 1:  # from where in its row the token of each column comes; the last ones are padding
            skipped = torch.tensor([read.length - length for length in lengths])[:, None]
            columns = (torch.arange(max(lengths)) + skipped).clamp(max=read.length - 1)  # (n, T)
            shifted = columns.to(read.layers[0].device, non_blocking=True)[:, None, :, None]
        for slots, layer in zip(self.layers, read.layers, strict=True):
            slots.put(first, *(_beginning_left(part, shifted, max(lengths)) for part in layer.read()))

    def leave(self, slot: int) -> None:
        """Forget a text; the last one moves into its slot."""
        last = len(self.lengths) - 1
        if slot != last:
            self.lengths[slot] = self.lengths[last]
            for layer in self.layers:
                layer.put(slot, *(part[last:, :, : self.lengths[last]] for part in layer.read()))
        del self.lengths[last]

    def make_room(self, slots: int, length: int) -> None:
        """Let the buffers hold so many slots and tokens; a text must have joined before."""
        for layer in self.layers:
            layer.make_room(layer.buffers()[0][0], slots, length)

    def prefix_state(self, slot: int, length: int) -> State:
        """An ordinary state that has read the first ``length`` tokens of a slot's text, copied."""
        state = State(len(self.layers))
        for slots, layer in zip(self.layers, state.layers, strict=True):
            layer.append(*(part[slot : slot + 1, :, :length] for part in slots.read()))
        return state


class SlotCache(KeyValueCache):
    """The keys and values of one attention layer for the slots of a state."""

    def __init__(self, state: SlotState):
        super().__init__()
        self._state = state

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add (N, G, 1, K) keys and values, one of each text; return all so far, (N, G, S, K)."""
        before, n = self._state._now, len(keys)
        self.make_room(keys[0], n, self._state.length)
        assert self._keys is not None and self._values is not None
        if len(set(before)) == 1:
            self._keys[:n, :, before[0]], self._values[:n, :, before[0]] = keys[:, :, 0], values[:, :, 0]
        else:
            rows, columns = torch.arange(n, device=keys.device), torch.tensor(before).to(keys.device, non_blocking=True)
            self._keys[rows, :, columns], self._values[rows, :, columns] = keys[:, :, 0], values[:, :, 0]
        return self.read()

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values, each (N, G, S, K), where S is the length of the longest text.

        Raises ValueError when there are none.
        """
        n, length = len(self._state.lengths), self._state.length
        keys, values = self.buffers()
        return keys[:n, :, :length], values[:n, :, :length]

    def buffers(self) -> tuple[Tensor, Tensor]:
        """Where keys and values lie, with room for more slots and tokens.  Raises ValueError when there are none."""
        if self._keys is None or self._values is None:
            raise ValueError("the cache is empty: let a text join first")
        return self._keys, self._values

    def put(self, slot: int, keys: Tensor, values: Tensor) -> None:
        """Set the keys and values of n texts from a slot on, (n, G, T, K)."""
        end, length = slot + len(keys), keys.shape[2]
        self.make_room(keys[0], end, length)
        assert self._keys is not None and self._values is not None
        self._keys[slot:end, :, :length], self._values[slot:end, :, :length] = keys, values

    def make_room(self, like: Tensor, slots: int, length: int) -> None:
        """Let the buffers hold so many slots and tokens, of the shape (G, ..., K) and type of ``like``."""
        old = self._keys
        had = (0, 0) if old is None else (old.shape[0], old.shape[2])
        if slots <= had[0] and length <= had[1]:
            return
        slots = had[0] if slots <= had[0] else max(slots, 2 * had[0])
        length = had[1] if length <= had[1] else -(-max(length, 2 * had[1]) // BLOCK) * BLOCK
        made = []
        for part in (self._keys, self._values):
            room = like.new_zeros(slots, like.shape[0], length, like.shape[-1])
            if part is not None:
                room[: had[0], :, : had[1]] = part
            made.append(room)
        self._keys, self._values = made


def _beginning_left(part: Tensor, columns: Tensor | None, length: int) -> Tensor:
    """Keys or values (n, G, S, K) from their columns (n, 1, T, 1), or, without any, the last ``length`` of them."""
    if columns is None:
        return part[:, :, part.shape[2] - length :]
    return part.gather(2, columns.expand(-1, part.shape[1], -1, part.shape[3]))


class FixedSlots(State):
    """The first N slots of a state, as one step of fixed shapes sees them: its keys and values are the state's own.

    A CUDA graph needs shapes and places that stay the same.

    ``lengths``, int64 (N,), says how many tokens each text has; whoever computes the step again changes it in place.
    """

    def __init__(self, state: SlotState, lengths: Tensor, length: int):
        """``length`` is S, beyond which no text may have tokens after this step."""
        super().__init__(len(state.layers))
        self.lengths, self.size = lengths, length
        self.layers: list[Any] = [FixedCache(lengths, length, *layer.buffers()) for layer in state.layers]

    def place(
        self, mask: Tensor | None, batch: int, length: int, device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """As of every state: positions (N, 1) of the new tokens and (1, S) of all, and which of all are there."""
        queries, keys = self.lengths[:, None], torch.arange(self.size, device=device)[None]
        return queries, keys, keys <= queries


class FixedCache(KeyValueCache):
    """The keys and values of one attention layer for ``FixedSlots``."""

    def __init__(self, lengths: Tensor, length: int, keys: Tensor, values: Tensor):
        super().__init__()
        self._lengths, self._rows = lengths, torch.arange(len(lengths), device=lengths.device)
        self._keys, self._values = keys[: len(lengths), :, :length], values[: len(lengths), :, :length]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add (N, G, 1, K) keys and values, one of each text; return all of the room, (N, G, S, K)."""
        assert self._keys is not None and self._values is not None
        self._keys[self._rows, :, self._lengths] = keys[:, :, 0]
        self._values[self._rows, :, self._lengths] = values[:, :, 0]
        return self._keys, self._values
