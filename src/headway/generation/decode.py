"""Decoding token by token with a cache: one loop for greedy decoding and sampling, for one prompt or many.

Letters: B batch, T length, V vocabulary.
"""

from collections.abc import Collection, Generator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from headway.generation.sampling import Sampling, choose
from headway.io.fork_safety import check_threads


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
) -> Generator[dict[int, int], set[int] | None, None]:
    """Continue every prompt; each step yields the new token of every running row, by row.

    A row ends at ``end`` (an id, or any of several; it is not yielded), after ``max_tokens``, or when the caller sends
    its number back (``generator.send({row, ...})``).  When a row exceeds ``context`` tokens, the older half is dropped
    and the rest is read again, so that no position exceeds the trained length.  A row gets the same tokens whatever the
    other rows of the batch are, up to rounding.
    """
    check_threads()
    texts = [list(prompt) for prompt in prompts]
    if not all(texts):
        raise ValueError(f"prompt {[bool(text) for text in texts].index(False)} has no tokens: give at least one")
    starts = [max(0, len(text) - context) for text in texts]
    random = [_generator(seed, device) for _ in texts]
    ends = () if end is None else (end,) if isinstance(end, int) else end
    alive = list(range(len(texts)))
    state, logits = _read(model, texts, starts, alive, device)
    for count in range(max_tokens):
        if forbidden:
            logits[:, list(forbidden)] = float("-inf")
        seen = _seen(texts, alive, logits) if sampling.repetition_penalty != 1.0 else None
        chosen = choose(logits, sampling, seen, [random[row] for row in alive]).tolist()
        step = {row: token for row, token in zip(alive, chosen, strict=True) if token not in ends}
        for row, token in step.items():
            texts[row].append(token)
        finished: set[int] = set()
        if step:
            finished = (yield step) or set()
        going = [row for row in alive if row in step and row not in finished]
        if not going or count == max_tokens - 1:
            return
        if len(going) < len(alive):
            state.reorder(torch.tensor([alive.index(row) for row in going], device=device))
        alive = going
        full = [row for row in alive if len(texts[row]) - starts[row] > context]
        if full:
            for row in full:
                starts[row] = len(texts[row]) - context // 2 - 1
            state, logits = _read(model, texts, starts, alive, device)
        else:
            last = torch.tensor([[texts[row][-1]] for row in alive], device=device)
            logits = model.next_logits(last, None, state)


def _read(
    model: Model, texts: list[list[int]], starts: list[int], rows: list[int], device: torch.device | str
) -> tuple[Any, Tensor]:
    """A new state that has read every row from its start, and the next logits.  Padding is on the left."""
    state = model.new_state()
    return state, model.next_logits(*left_padded([texts[row][starts[row] :] for row in rows], device), state)


def left_padded(rows: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, Tensor | None]:
    """Ids (B, T) with padding on the left, and the mask (B, T), or None where there is no padding."""
    longest = max(len(row) for row in rows)
    ids = torch.tensor([[*[0] * (longest - len(row)), *row] for row in rows], device=device)
    mask = torch.tensor([[i >= longest - len(row) for i in range(longest)] for row in rows], device=device)
    return ids, None if bool(mask.all()) else mask


def _seen(texts: list[list[int]], rows: list[int], logits: Tensor) -> Tensor:
    seen = torch.zeros_like(logits, dtype=torch.bool)
    for i, row in enumerate(rows):
        seen[i, texts[row]] = True
    return seen


def _generator(seed: int | None, device: torch.device | str) -> torch.Generator | None:
    if seed is None:
        return None
    return torch.Generator(device=device).manual_seed(seed)
