"""What a head does, in numbers: how spread out, how far, and by which pattern it attends.

All but ``induction_scores`` take weights as ``attention_maps`` gives them, (B, H, T, S), and give (B, H): means over
the queries that are tokens.  ``mask`` (B, T), true where a token is, is for self-attention over padded texts; in
cross-attention it is the targets', and padding of the sources has no weight anyway.

Letters: B batch, H heads, T queries, S keys, L layers.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from headway.models.analysis.maps import attention_maps
from headway.models.transformer import Decoder
from headway.nn.masks import token_positions


def entropy(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """-Σ w ln w, in nats: 0 where one key has all the weight, ln S where all keys have the same: (B, H)."""
    return _mean_over_queries(torch.special.entr(weights).sum(dim=-1), mask)


def confidence(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """The largest weight of a query (Voita et al. 2019): (B, H), from 1 / S to 1."""
    return _mean_over_queries(weights.amax(dim=-1), mask)


def mean_distance(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """Σ w |position of the query - position of the key|, in tokens, of a self-attention: (B, H).

    Raises ValueError for maps that are not square.
    """
    distance = _ahead(weights, mask).abs()  # (B or 1, T, T)
    return _mean_over_queries((weights * distance[:, None]).sum(dim=-1), mask)


def patch_distance(weights: Tensor, grid: tuple[int, int]) -> Tensor:
    """How far away the patches of a picture are that a patch attends to, in patches (Dosovitskiy et al. 2020): (B, H).

    ``grid`` is how many rows and columns of patches there are; the tokens are those, row by row, behind one that stands
    for the whole picture.  It has no place, so what attends to it, and what it attends to, is left out.  Raises
    ValueError for another number of tokens.
    """
    rows, columns = grid
    if tuple(weights.shape[-2:]) != (rows * columns + 1,) * 2:
        raise ValueError(f"maps of {list(weights.shape[-2:])}, expected {rows} × {columns} patches and a token before")
    at = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).to(weights)  # (N, 2)
    between = weights[..., 1:, 1:]  # (B, H, N, N)
    found = (between * torch.cdist(at, at)).sum(dim=-1) / between.sum(dim=-1).clamp(min=1e-12)
    return found.mean(dim=-1)


def previous_token_score(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean weight on the token before, of a self-attention, over all tokens that have one: (B, H).

    Raises ValueError for maps that are not square.
    """
    before = _ahead(weights, mask) == -1  # (B or 1, T, T)
    if mask is not None:
        before = before & mask[:, :, None] & mask[:, None, :]
    total = (weights * before[:, None]).sum(dim=(-2, -1))
    return total / before.sum(dim=(-2, -1)).clamp(min=1)[:, None]


def induction_score(weights: Tensor, period: int) -> Tensor:
    """The mean weight on the token after the earlier occurrence, in a text that repeats itself every ``period`` tokens.

    The query at t >= period reads the token that stood at t - period; an induction head attends to the one behind it,
    t - period + 1, since that is what comes next (Olsson et al. 2022): (B, H), 1 for a perfect one.  Raises ValueError
    for maps that are not square, and where nothing is repeated.
    """
    n = _ahead(weights, None).shape[-1]
    if not 2 <= period < n:
        raise ValueError(f"a period of {period} in {n} tokens: it must be 2 or more, and less than there are tokens")
    return weights.diagonal(offset=1 - period, dim1=-2, dim2=-1)[..., 1:].mean(dim=-1)


def induction_scores(model: Decoder, period: int = 24, sequences: int = 8, seed: int = 0) -> Tensor:
    """``induction_score`` of each head of a decoder, on random ids written twice: (L, H), means over ``sequences``.

    The ids are different within a text, so that only their order tells what comes next; ``period`` is made shorter
    where model or vocabulary are too small for it.  Raises TypeError for a model that is no decoder: what comes next is
    a question of its own only where later tokens are not seen.
    """
    if not isinstance(model, Decoder):
        raise TypeError(f"{type(model).__name__} is not a Decoder: only a decoder tells what comes next")
    vocabulary = model.config.vocab_size
    period = min(period, model.config.max_length // 2, vocabulary)
    if period < 2:
        raise ValueError("nothing can be repeated in so short a context, or with so small a vocabulary")
    draw = torch.Generator().manual_seed(seed)
    once = torch.stack([torch.randperm(vocabulary, generator=draw)[:period] for _ in range(sequences)])
    ids = torch.cat([once, once], dim=1).to(next(model.parameters()).device)  # (B, 2 period)
    maps = attention_maps(model, ids)["self"]
    return torch.stack([induction_score(weights, period).mean(dim=0) for weights in maps])


def head_statistics(
    maps: Sequence[Tensor], mask: Tensor | None = None, *, self_attention: bool = True
) -> dict[str, Tensor]:
    """The statistics of all heads by name, (L, B, H) each, from one kind of maps of ``attention_maps``.

    "entropy", "confidence" and, of a self-attention, "distance" and "previous_token".
    """
    measures = {"entropy": entropy, "confidence": confidence}
    if self_attention:
        measures |= {"distance": mean_distance, "previous_token": previous_token_score}
    return {name: torch.stack([measure(weights, mask) for weights in maps]) for name, measure in measures.items()}


def _ahead(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Position of the key minus position of the query, counted over tokens alone: (B or 1, T, T)."""
    n_queries, n_keys = weights.shape[-2:]
    if n_queries != n_keys:
        raise ValueError(f"{n_queries} queries and {n_keys} keys: distances are those of a whole self-attention")
    at = torch.arange(n_keys, device=weights.device)[None] if mask is None else token_positions(mask)  # (B or 1, T)
    return at[:, None, :] - at[:, :, None]


def _mean_over_queries(values: Tensor, mask: Tensor | None) -> Tensor:
    """(B, H, T) -> (B, H), over real queries."""
    if mask is None:
        return values.mean(dim=-1)
    real = mask[:, None].to(values.dtype)  # (B, 1, T)
    return (values * real).sum(dim=-1) / real.sum(dim=-1).clamp(min=1)
