"""Beam search: the most probable continuations that a search of limited width finds, for one prompt or many.

It works for every model with a state that can be reordered; an encoder-decoder reads its sources and computes their
keys only once (``generation.decode``).

Letters: B prompts, K width of the beam, V vocabulary.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headway.data.batches.batching import sent
from headway.generation.decode import Model, Reading


@dataclass(frozen=True)
class Hypothesis:
    """A finished continuation, without its prompt and its ending token.

    ``score`` is ln p divided by the length to the power of the length penalty; the length counts the ending token.
    """

    ids: tuple[int, ...]
    log_probability: float
    score: float
    cut: bool = False
    """whether it reached its maximum length before an ending token"""


@dataclass
class _Search:
    """The search for one prompt: running and finished hypotheses, best first."""

    running: list[tuple[tuple[int, ...], float]] = field(default_factory=lambda: [((), 0.0)])
    finished: list[Hypothesis] = field(default_factory=list)


@torch.no_grad()
def beam_search(
    model: Model,
    prompts: Sequence[Sequence[int]],
    *,
    beam: int,
    max_tokens: int | Sequence[int],
    end: int | Collection[int],
    n_best: int = 1,
    length_penalty: float = 1.0,
    forbidden: Sequence[int] = (),
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The ``n_best`` best hypotheses of each prompt, best first; each prompt's result is independent of the others.

    ``max_tokens``, the ending token included, may differ by prompt.  Of the most probable continuations of a beam,
    those that end within the first K are finished, and the first K others continue; a finished one never changes.  The
    search for a prompt is over when K are finished and no running hypothesis, if it ended now, would be among the best
    K; or at the maximum length: then all running hypotheses are finished as they are, and compete by score with those
    that ended themselves.  With length penalty 0 this misses nothing that a search of this width can find; with a
    larger one, a running hypothesis might still have improved by growing longer.  The best ones are therefore the same
    whatever ``n_best`` is. Raises ValueError for a prompt without tokens and for a beam narrower than ``n_best``.
    """
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best is {n_best} and beam {beam}; expected 1 <= n_best <= beam")
    if not all(prompts):
        raise ValueError(f"prompt {[bool(prompt) for prompt in prompts].index(False)} has no tokens: give at least one")
    ends = {end} if isinstance(end, int) else set(end)
    limits = [max_tokens] * len(prompts) if isinstance(max_tokens, int) else list(max_tokens)
    searches = [_Search() for _ in prompts]
    alive = [number for number in range(len(prompts)) if limits[number] > 0]
    if not alive:
        return [[] for _ in prompts]
    never = sent(forbidden, device) if forbidden else None
    reading = Reading(model, prompts, device)
    logits = reading.logits  # (B, V)
    if len(alive) < len(prompts):
        kept = sent(alive, device)
        reading.keep(kept)
        logits = logits[kept]
    length = 0
    while True:
        length += 1
        parents: list[int] = []  # for each row of the next step, its row in this one
        tokens: list[int] = []
        going = []
        row = 0
        count = beam * (1 + len(ends))  # as many as K, and each of them ended by every token that can
        candidates = _candidates(logits, [searches[number] for number in alive], never, count)
        for number, likeliest in zip(alive, candidates, strict=True):
            search, n_rows = searches[number], len(searches[number].running)
            chosen = _advance(search, likeliest, ends, beam, length, length_penalty)
            if not _over(search, beam, length, length_penalty):
                if length < limits[number]:
                    parents += [row + parent for parent, _ in chosen]
                    tokens += [token for _, token in chosen]
                    going.append(number)
                else:
                    _cut(search, length, length_penalty)
            row += n_rows
        alive = going
        if not alive:
            return [search.finished[:n_best] for search in searches]
        rows, chosen_tokens = sent([parents, tokens], device)
        reading.keep(rows)
        reading.read(chosen_tokens)
        logits = reading.logits


def _candidates(
    logits: Tensor, searches: list[_Search], never: Tensor | None, count: int
) -> list[list[tuple[float, int, int]]]:
    """The likeliest continuations of each search: (ln p of all of it, which running one it continues, token).

    ``never`` are ids that are not written.  This is where a step waits for the device.
    """
    logits = logits.float()
    if never is not None:
        logits.index_fill_(1, never, -math.inf)
    before = torch.tensor([p for search in searches for _, p in search.running])
    # no other than these of each row can be among the likeliest of all
    likely, tokens = logits.log_softmax(dim=-1).topk(min(count, logits.shape[1]), dim=-1)
    total = before.to(logits.device, non_blocking=True)[:, None] + likely  # (rows, count)
    sizes = [len(search.running) for search in searches]
    together, names = _by_search(total, sizes, -math.inf), _by_search(tokens, sizes, 0)
    values, places = together.topk(min(count, together.shape[1]), dim=-1)
    names, width = names.gather(1, places), likely.shape[1]
    candidates = []
    for each in zip(values.tolist(), *torch.stack([places, names]).tolist(), strict=True):
        candidates.append([(p, place // width, token) for p, place, token in zip(*each, strict=True) if p > -math.inf])
    return candidates


def _by_search(rows: Tensor, sizes: list[int], filler: float) -> Tensor:
    """What each search has in its rows side by side: (rows, count) -> (searches, most rows of one × count)."""
    if len(set(sizes)) == 1:
        return rows.reshape(len(sizes), -1)
    return pad_sequence([part.flatten() for part in rows.split(sizes)], batch_first=True, padding_value=filler)


def _advance(
    search: _Search,
    candidates: list[tuple[float, int, int]],
    ends: set[int],
    beam: int,
    length: int,
    length_penalty: float,
) -> list[tuple[int, int]]:
    """Finish those that ended and keep the best K of the others; for each of these, its parent and its token."""
    before, chosen = search.running, []
    running: list[tuple[tuple[int, ...], float]] = []
    for rank, (p, parent, token) in enumerate(candidates):
        if token in ends:
            known = any(one.ids == before[parent][0] for one in search.finished)  # ended by a more probable token
            if rank < beam and not known:
                search.finished.append(Hypothesis(before[parent][0], p, p / length**length_penalty))
        elif len(running) < beam:
            running.append(((*before[parent][0], token), p))
            chosen.append((parent, token))
    search.running = running
    search.finished = sorted(search.finished, key=lambda one: -one.score)[:beam]
    return chosen


def _over(search: _Search, beam: int, length: int, length_penalty: float) -> bool:
    """Whether no running hypothesis can reach the best K."""
    if not search.running:
        return True
    best = search.running[0][1] / length**length_penalty
    return len(search.finished) == beam and best <= search.finished[-1].score


def _cut(search: _Search, length: int, length_penalty: float) -> None:
    """Finish every running hypothesis as it is, at the maximum length."""
    cut = [Hypothesis(ids, p, p / length**length_penalty, cut=True) for ids, p in search.running]
    search.finished = sorted([*search.finished, *cut], key=lambda one: -one.score)
