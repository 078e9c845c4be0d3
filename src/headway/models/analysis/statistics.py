"""Statistics of attention heads: how spread out, how far, and in which pattern each attends.

All but ``induction_scores`` take weights from ``attention_maps``, (B, H, T, S), and return (B, H): means over the
queries that are tokens.  ``mask`` (B, T), true where there is a token, is for self-attention over padded texts; for
cross-attention it is the mask of the targets, and padding of the sources has no weight anyway.

Letters: B batch, H heads, T queries, S keys, L layers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.models.analysis.maps import attention_maps, stacks_of
from headway.models.transformer import Decoder, Stack
from headway.nn.masks import token_positions


def entropy(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """-Σ w ln w, in nats: 0 where one key has all the weight, ln S where all keys have the same: (B, H)."""
    return _mean_over_queries(torch.special.entr(weights).sum(dim=-1), mask)


def confidence(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """The largest weight of a query (Voita et al. 2019): (B, H), from 1 / S to 1."""
    return _mean_over_queries(weights.amax(dim=-1), mask)


def mean_distance(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """Σ w |position of the query - position of the key|, in tokens, for self-attention: (B, H).

    Raises ValueError for maps that are not square.
    """
    distance = _ahead(weights, mask).abs()  # (B or 1, T, T)
    return _mean_over_queries((weights * distance[:, None]).sum(dim=-1), mask)


def patch_distance(weights: Tensor, grid: tuple[int, int]) -> Tensor:
    """The mean distance, in patches, to the patches that a patch attends to (Dosovitskiy et al. 2020): (B, H).

    ``grid`` is the number of rows and columns of patches; the tokens are the class token and then the patches, row by
    row. The class token has no position, so its weights as query and as key are left out.  Raises ValueError for
    another number of tokens.
    """
    rows, columns = grid
    if tuple(weights.shape[-2:]) != (rows * columns + 1,) * 2:
        raise ValueError(f"maps of {list(weights.shape[-2:])}, expected a class token and {rows} × {columns} patches")
    at = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).to(weights)  # (N, 2)
    between = weights[..., 1:, 1:]  # (B, H, N, N)
    distances = (between * torch.cdist(at, at)).sum(dim=-1) / between.sum(dim=-1).clamp(min=1e-12)
    return distances.mean(dim=-1)


def previous_token_score(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean weight on the previous token in self-attention, over all tokens that have one: (B, H).

    Raises ValueError for maps that are not square.
    """
    before = _ahead(weights, mask) == -1  # (B or 1, T, T)
    if mask is not None:
        before = before & mask[:, :, None] & mask[:, None, :]
    total = (weights * before[:, None]).sum(dim=(-2, -1))
    return total / before.sum(dim=(-2, -1)).clamp(min=1)[:, None]


def induction_score(weights: Tensor, period: int) -> Tensor:
    """The mean weight on the token after the earlier occurrence, in a text that repeats itself every ``period`` tokens.

    The query at t >= period reads the token that occurred at t - period; an induction head attends to the one after it,
    t - period + 1, since that is what comes next (Olsson et al. 2022): (B, H), 1 for a perfect head.  Raises ValueError
    for maps that are not square, and where nothing is repeated.
    """
    n = _ahead(weights, None).shape[-1]
    if not 2 <= period < n:
        raise ValueError(f"period is {period} for {n} tokens; it must be at least 2 and less than the number of tokens")
    return weights.diagonal(offset=1 - period, dim1=-2, dim2=-1)[..., 1:].mean(dim=-1)


def induction_scores(model: Decoder, period: int = 24, sequences: int = 8) -> Tensor:
    """``induction_score`` of each head of a decoder, on random ids repeated once: (L, H), means over ``sequences``.

    The ids differ within a text, so that only their order predicts what comes next; ``period`` is reduced where the
    model or the vocabulary is too small for it.  Raises TypeError for a model that is not a decoder: predicting the
    next token is only a question where later tokens are hidden.
    """
    if not isinstance(model, Decoder):
        raise TypeError(f"{type(model).__name__} is not a Decoder: only a decoder predicts the next token")
    vocabulary = model.config.vocab_size
    period = min(period, model.config.max_length // 2, vocabulary)
    if period < 2:
        raise ValueError("the context or the vocabulary is too small to repeat anything")
    draw = torch.Generator().manual_seed(0)
    once = torch.stack([torch.randperm(vocabulary, generator=draw)[:period] for _ in range(sequences)])
    ids = torch.cat([once, once], dim=1).to(next(model.parameters()).device)  # (B, 2 period)
    maps = attention_maps(model, ids)["self"]
    return torch.stack([induction_score(weights, period).mean(dim=0) for weights in maps])


def head_statistics(
    maps: Sequence[Tensor], mask: Tensor | None = None, *, self_attention: bool = True
) -> dict[str, Tensor]:
    """The statistics of all heads by name, (L, B, H) each, from one kind of maps of ``attention_maps``.

    "entropy" and "confidence", and for self-attention also "distance" and "previous_token".
    """
    measures = {"entropy": entropy, "confidence": confidence}
    if self_attention:
        measures |= {"distance": mean_distance, "previous_token": previous_token_score}
    return {name: torch.stack([measure(weights, mask) for weights in maps]) for name, measure in measures.items()}


def _ahead(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Position of the key minus position of the query, counted over tokens alone: (B or 1, T, T)."""
    n_queries, n_keys = weights.shape[-2:]
    if n_queries != n_keys:
        raise ValueError(
            f"{n_queries} queries and {n_keys} keys: distances need a whole self-attention, with as many of each"
        )
    at = torch.arange(n_keys, device=weights.device)[None] if mask is None else token_positions(mask)  # (B or 1, T)
    return at[:, None, :] - at[:, :, None]


def _mean_over_queries(values: Tensor, mask: Tensor | None) -> Tensor:
    """(B, H, T) -> (B, H), over real queries."""
    if mask is None:
        return values.mean(dim=-1)
    real = mask[:, None].to(values.dtype)  # (B, 1, T)
    return (values * real).sum(dim=-1) / real.sum(dim=-1).clamp(min=1)


@dataclass(frozen=True)
class PositionTable:
    """A position encoding; the meaning of ``values`` depends on ``kind``."""

    kind: str
    """sinusoidal, learned, rotary, alibi or relative"""
    values: Tensor
    """sinusoidal and learned: (T, D), the vector added at each position; rotary: (R,), the number of tokens in which
    each pair turns once; alibi and relative: (H, 2 T - 1), the bias added to the scores of keys from T - 1 tokens
    before the query to T - 1 after it"""
    causal: bool = False
    """whether keys after the query are masked, whatever their bias"""


def position_tables(model: nn.Module, length: int = 64) -> dict[str, PositionTable]:
    """The encoding of the first ``length`` positions: by "self", or "encoder" and "decoder" for an encoder-decoder.

    If the layers of a rotary model have different bases, the first layer's is used.  A learned table ends at the
    model's length.  Raises TypeError for a module that is none of the three wirings, ValueError for a model without
    positions.
    """
    stacks = stacks_of(model)
    with torch.no_grad():
        return {name: _table(stack, length) for name, stack in stacks.items()}


def _table(stack: Stack, length: int) -> PositionTable:
    position, kind = stack.embedding.position, stack.config.position.kind
    size = min(length, position.max_length or length)
    vectors = position.embed(torch.arange(size), size)
    if vectors is not None:
        return PositionTable(kind, vectors)
    rotate = position.rotation(torch.tensor([[1]]), stack.windows[0])
    if rotate is not None:
        width = stack.config.rotated
        pairs = torch.tensor([1.0, 0.0]).repeat_interleave(width // 2).expand(1, 1, 1, width)  # (1, 0) each
        cos, sin = rotate(pairs).chunk(2, dim=-1)  # the angles of one step
        return PositionTable(kind, 2 * math.pi / torch.atan2(sin, cos).flatten())
    ahead = torch.arange(1 - length, length)  # key minus query
    query = torch.tensor([[length - 1]])
    bias = position.bias(query, query + ahead)
    if bias is not None:
        return PositionTable(kind, bias[0, :, 0], stack.causal)
    raise ValueError("the model has no position encoding: there is nothing to show")
