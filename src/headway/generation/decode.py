"""Decoding token by token with a cache: one loop for greedy decoding and sampling, for one prompt or many.

Letters: B batch, T length, S source length, D width, V vocabulary.
"""

from collections.abc import Collection, Generator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from headway.data.batches.batching import padded, sent
from headway.generation.sampling import Sampling, choose, new_generator
from headway.models.transformer import EncoderDecoder
from headway.nn.global_state import plain_defaults
from headway.nn.state import State
from headway.nn.threads import check_threads

Steps = Generator[dict[int, int], set[int] | None, None]
"""New tokens by row, step by step; rows that are over are sent back."""


class Model(Protocol):
    """Any model that can be decoded token by token; its state has ``reorder(rows)``."""

    def new_state(self) -> Any:
        """An empty state."""

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """(B, T) -> (B, V)."""


@torch.no_grad()
def decode(
    model: Model,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    max_tokens: int,
    context: int,
    end: int | Collection[int] | None = None,
    forbidden: Sequence[int] = (),
    seed: int | None = None,
    device: torch.device | str = "cpu",
) -> Steps:
    """Continue every prompt; each step yields the new token of every row that goes on, by row.

    A row is over after ``end`` (an id, or any of several; it is not yielded), after ``max_tokens``, or when the caller
    sends its number back (``generator.send({row, ...})``).  When a row has ``context`` tokens, the older half is
    forgotten and the rest read again, so that no position is further than the model was trained for.  A row gets the
    same tokens whatever rows are beside it, but for rounding.  Each step waits once for the device: for its tokens.
    """
    check_threads()
    texts = [list(prompt) for prompt in prompts]
    if not all(texts):
        raise ValueError(f"prompt {[bool(text) for text in texts].index(False)} has no tokens: give at least one")
    starts = [max(0, len(text) - context) for text in texts]
    random = [new_generator(seed, device) for _ in texts]
    ends = () if end is None else (end,) if isinstance(end, int) else end
    never = sent(forbidden, device) if forbidden else None
    alive = list(range(len(texts)))
    reading = Reading(model, [text[start:] for text, start in zip(texts, starts, strict=True)], device)
    seen = seen_tokens(texts, reading.logits) if sampling.repetition_penalty != 1.0 else None
    for count in range(max_tokens):
        if never is not None:
            reading.logits.index_fill_(1, never, float("-inf"))
        chosen = choose(reading.logits, sampling, seen, [random[row] for row in alive])
        step = {row: token for row, token in zip(alive, chosen.tolist(), strict=True) if token not in ends}
        for row, token in step.items():
            texts[row].append(token)
        finished: set[int] = set()
        if step:
            finished = (yield step) or set()
        going = [place for place, row in enumerate(alive) if row in step and row not in finished]
        if not going or count == max_tokens - 1:
            return
        if seen is not None:
            seen.scatter_(1, chosen[:, None], True)
        if len(going) < len(alive):
            kept = sent(going, device)
            reading.keep(kept)
            chosen, seen = chosen[kept], None if seen is None else seen[kept]
            alive = [alive[place] for place in going]
        full = [row for row in alive if len(texts[row]) - starts[row] > context]
        if full:
            for row in full:
                starts[row] = len(texts[row]) - context // 2 - 1
            reading = Reading(model, [texts[row][starts[row] :] for row in alive], device)
        else:
            reading.read(chosen)


class Reading:
    """Rows that a model reads token by token: what it remembers of them, and the logits (B, V) of what comes next."""

    @plain_defaults()
    def __init__(self, model: Model, rows: Sequence[Sequence[int]], device: torch.device | str):
        self.model, self.state = model, model.new_state()
        self.logits = model.next_logits(*left_padded(rows, device), self.state)  # shorter rows begin later

    def keep(self, rows: Tensor) -> None:
        """Go on with the given rows, (B',) int64, in that order; rows may repeat or be left out."""
        self.state.reorder(rows)

    @plain_defaults()
    def read(self, tokens: Tensor) -> None:
        """Read one more token of each row: (B,) int64."""
        self.logits = self.model.next_logits(tokens[:, None], None, self.state)


def left_padded(rows: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, Tensor | None]:
    """Ids (B, T) with padding on the left, and the mask (B, T), or None where there is no padding."""
    longest = max(len(row) for row in rows)
    ids = sent([[*[0] * (longest - len(row)), *row] for row in rows], device)
    if all(len(row) == longest for row in rows):
        return ids, None
    lengths = sent([len(row) for row in rows], device)
    return ids, torch.arange(longest, device=device) >= longest - lengths[:, None]


def seen_tokens(texts: Sequence[Sequence[int]], logits: Tensor) -> Tensor:
    """Bool (B, V), as the logits of each text, true for its tokens."""
    seen = torch.zeros(logits.shape, dtype=torch.bool)
    for row, text in enumerate(texts):
        seen[row, text] = True
    return seen.to(logits.device, non_blocking=True)


class Conditional:
    """An encoder-decoder with encoded sources, of which ``decode`` generates the targets as of any model.

        model = Conditional(encoder_decoder, sources)
        for step in decode(model, [start] * len(sources), sampling, max_tokens=n, context=n + len(start), end=end):
            ...

    A state holds what its rows need of their sources: ``reorder`` may drop and repeat rows.  A new state always covers
    all sources, so ``decode`` needs a ``context`` that holds a whole target.
    """

    @torch.no_grad()
    def __init__(self, model: EncoderDecoder, sources: Sequence[Sequence[int]], device: torch.device | str = "cpu"):
        if not all(sources):
            raise ValueError(f"source {[bool(source) for source in sources].index(False)} has no tokens")
        ids, self.source_mask = padded(sources, device)  # (B, S) both, the mask None where nothing is padding
        self.model = model
        self.source = model.encode(ids, self.source_mask)  # (B, S, D)

    def new_state(self) -> State:
        """An empty state for the targets of all sources, in their order."""
        return self.model.new_state()

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: State | None = None) -> Tensor:
        """Logits of the token after the last of each target: (B, T) -> (B, V).  Padding must be on the left.

        Raises ValueError when a new state starts with a number of targets other than the number of sources.
        """
        if (state is None or state.length == 0) and len(ids) != len(self.source):
            raise ValueError(f"{len(ids)} targets for {len(self.source)} sources: start with one target per source")
        return self.model.next_logits(ids, self.source, self.source_mask, state, mask)
