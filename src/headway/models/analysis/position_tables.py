"""What a model's position encoding looks like, as arrays to plot.

Letters: T positions, D width, H heads, R rotated pairs.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.models.analysis.maps import stacks_of
from headway.models.transformer import Stack


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
