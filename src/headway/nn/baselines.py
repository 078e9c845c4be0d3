"""The layers of the baselines: recurrent ones, convolutions over tokens, and additive attention.

A recurrent layer updates a state of fixed size token by token:

    RNN     h ← tanh(W x + b + U h + d)                                          (Elman 1990)
    LSTM    i, f, o = σ(...), g = tanh(...);  c ← f c + i g;  h ← o tanh(c)      (Hochreiter and Schmidhuber 1997;
                                                                                  f: Gers et al. 2000)
    GRU     r, z = σ(...), n = tanh(W x + b + r (U h + d));  h ← (1 - z) n + z h (Cho et al. 2014)

torch's kernels compute them, gates stacked in torch's order; ``step`` has the equations for one token, for reading and
for tests.  Each token has to wait for the one before it: attention removes that.

Letters: B batch, T length or queries, S keys, D width of what is read, H width of the state, G gates, F filters of one
width, E width of the keys, A width of the network that scores.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

Cell = Literal["rnn", "lstm", "gru"]
CELLS: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
GATES = {"rnn": 1, "lstm": 4, "gru": 3}
"""G: the number of matrices of H rows stacked in W and in U."""

Memory = tuple[Tensor, ...]
"""(h,), for an LSTM (h, c): each (directions, B, H)."""


class Recurrent(nn.Module):
    """One recurrent layer over the real tokens; with ``both``, one in each direction, concatenated."""

    def __init__(self, kind: Cell, d_in: int, d_state: int, *, both: bool = False):
        super().__init__()
        if kind not in CELLS:
            raise ValueError(f"the cell is {kind!r}, but must be one of {', '.join(CELLS)}")
        self.kind = kind
        self.core = CELLS[kind](d_in, d_state, batch_first=True, bidirectional=both)

    def forward(self, x: Tensor, mask: Tensor | None = None, memory: Memory | None = None) -> tuple[Tensor, Memory]:
        """(B, T, D) -> (B, T, H) or, in both directions, (B, T, 2 H); and the memory after the last real token.

        ``mask`` (B, T) is true where there is a token: the others change nothing, wherever they are, and give zeros.
        """
        if mask is None:
            return self._run(x, memory)
        lengths = mask.sum(dim=1).cpu()  # torch packs by lengths on the host: the only wait for an accelerator
        if bool((lengths == x.shape[1]).all()):
            return self._run(x, memory)
        order = (~mask).long().argsort(dim=1, stable=True)  # (B, T): real tokens first
        places = order[..., None]
        together = x.gather(1, places.expand(-1, -1, x.shape[2]))
        packed = pack_padded_sequence(together, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        found, after = self._run(packed, memory)
        y, _ = pad_packed_sequence(found, batch_first=True, total_length=x.shape[1])
        y = torch.zeros_like(y).scatter(1, places.expand(-1, -1, y.shape[2]), y) * mask[..., None]
        if bool((lengths == 0).any()):  # rows without a token keep what they remember
            before = memory or tuple(torch.zeros_like(part) for part in after)
            read = (lengths > 0)[None, :, None].to(x.device)
            after = tuple(torch.where(read, *pair) for pair in zip(after, before, strict=True))
        return y, after

    def _run(self, x: Any, memory: Memory | None) -> tuple[Any, Memory]:
        if self.kind == "lstm":
            if torch.is_autocast_enabled("cpu") and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
                with torch.autocast("cpu", enabled=False):  # oneDNN has no LSTM below float32 for such a processor
                    return self.core(x.float(), memory)
            return self.core(x, memory)
        y, h = self.core(x, None if memory is None else memory[0])
        return y, (h,)


def step(kind: Cell, x: Tensor, memory: Memory, w: Tensor, u: Tensor, b: Tensor, d: Tensor) -> Memory:
    """One token by the equations: x (B, D), memory of (B, H) each, w (G H, D), u (G H, H), b and d (G H,).

    Slow; the tests compare the layer with it.
    """
    h = memory[0]
    read, kept = (part.chunk(GATES[kind], dim=-1) for part in (x @ w.T + b, h @ u.T + d))  # G of (B, H)
    if kind == "rnn":
        return (torch.tanh(read[0] + kept[0]),)
    if kind == "gru":
        r, z = (torch.sigmoid(read[n] + kept[n]) for n in range(2))
        n = torch.tanh(read[2] + r * kept[2])
        return ((1 - z) * n + z * h,)
    i, f, g, o = (one + other for one, other in zip(read, kept, strict=True))
    c = torch.sigmoid(f) * memory[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


class RecurrentState:
    """What a recurrent model remembers between calls: a memory per layer, whose size does not depend on the length.

    ``source`` (B, S, D) and ``source_mask`` (B, S) belong to an encoder-decoder.
    """

    def __init__(self, n_layers: int):
        self.layers: list[Memory | None] = [None] * n_layers
        self.length = 0
        """the number of tokens read, padding included"""
        self.source: Tensor | None = None
        self.source_mask: Tensor | None = None

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in that order; rows may repeat or be left out.

        ``rows`` is (B',) int64, on the CPU or where the memory is.
        """
        memories = [part for memory in self.layers if memory is not None for part in memory]
        rows = rows.to(memories[0].device) if memories else rows
        self.layers = [
            None if memory is None else tuple(part.index_select(1, rows) for part in memory) for memory in self.layers
        ]
        if self.source is not None:
            self.source = self.source.index_select(0, rows)
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, rows)


class Convolutions(nn.Module):
    """Filters of several widths, D in total, followed by ReLU: each reads a few neighbouring tokens (Kim 2014).

    Beyond the ends of a text the filters read zeros, as they do from padding: the result does not depend on the batch.
    """

    def __init__(self, d_in: int, d_out: int, widths: Sequence[int]):
        super().__init__()
        if not widths or min(widths) < 1 or d_out < len(widths):
            raise ValueError(
                f"widths are {list(widths)} for {d_out} filters; expected whole numbers ≥ 1, a filter each"
            )
        each, left = divmod(d_out, len(widths))
        self.widths = tuple(widths)
        self.filters = nn.ModuleList(nn.Conv1d(d_in, each + (n < left), width) for n, width in enumerate(widths))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D): at each token, the outputs of the filters centred on it."""
        if mask is not None:
            x = x * mask[..., None]
        x = x.mT  # (B, D, T)
        found = [
            conv(F.pad(x, ((width - 1) // 2, width // 2)))
            for conv, width in zip(self.filters, self.widths, strict=True)
        ]  # of (B, F, T)
        return torch.relu(torch.cat(found, dim=1)).mT


class AdditiveAttention(nn.Module):
    """softmax(v · tanh(W q + U k)) over the keys, and the sum of the keys with these weights (Bahdanau et al. 2015)."""

    def __init__(self, d_query: int, d_key: int, width: int):
        super().__init__()
        self.query = nn.Linear(d_query, width, bias=False)
        self.key = nn.Linear(d_key, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, T, D) and (B, S, E) -> sums (B, T, E) and weights (B, T, S).  ``mask`` (B, S) is true for keys."""
        network = torch.tanh(self.query(queries)[:, :, None] + self.key(keys)[:, None])  # (B, T, S, A)
        scores = self.score(network)[..., 0]  # (B, T, S)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], -torch.inf)
        weights = scores.softmax(dim=-1)
        return weights @ keys, weights


class AttentionPooling(nn.Module):
    """One vector from many, weighted by a small network's score of each (Yang et al. 2016): (B, T, D) -> (B, D)."""

    def __init__(self, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, D), over real tokens only."""
        scores = self.score(torch.tanh(self.dense(x)))[..., 0]  # (B, T)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return (scores.softmax(dim=-1)[..., None] * x).sum(dim=1)
