"""Scaled dot-product attention, and the multi-head layer around it (Vaswani et al. 2017, sections 3.2.1 and 3.2.2).

Letters: B batch, T queries, S keys, D width, H query heads, G key-value heads, K head width.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headway.nn.kernels.attention import attention_weights
from headway.nn.kernels.dispatch import attend, rms_norm
from headway.nn.linear import Linear
from headway.nn.masks import attention_mask
from headway.nn.norm import RMSNorm
from headway.nn.positions.encoding import Rotation
from headway.nn.state import KeyValueCache


class Attention(nn.Module):
    """Multi-head attention: self or cross, cached or not, with as many key-value heads as query heads or fewer.

    Self-attention computes queries, keys and values from ``x`` with one matrix, ``qkv``; cross-attention (``d_source``
    given) computes queries from ``x``, and keys and values from ``source``.  With fewer key-value heads than heads it
    is grouped-query attention (Ainslie et al. 2023); with one, multi-query attention (Shazeer 2019).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        d_source: int | None = None,
        bias: bool = False,
        out_bias: bool = False,
        qk_norm: Callable[[int], nn.Module] | None = None,
        dropout: float = 0.0,
        window: int | None = None,
    ):
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads or n_heads
        self.d_head = d_head or d_model // n_heads
        self.dropout = dropout
        self.window = window
        self.cross = d_source is not None
        if n_heads % self.n_kv_heads:
            raise ValueError(f"{n_heads} heads cannot share {self.n_kv_heads} key-value heads evenly")
        q_width, kv_width = n_heads * self.d_head, 2 * self.n_kv_heads * self.d_head
        if d_source is not None:
            self.q = Linear(d_model, q_width, bias=bias)
            self.kv = Linear(d_source, kv_width, bias=bias)
        else:
            self.qkv = Linear(d_model, q_width + kv_width, bias=bias)
        self.out = Linear(q_width, d_model, bias=out_bias)
        self.q_norm = qk_norm(self.d_head) if qk_norm else None
        self.k_norm = qk_norm(self.d_head) if qk_norm else None
        self.watch: Callable[[Tensor], None] | None = None  # called with the weights (B, H, T, S) of every call

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
        source: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D).

        ``mask`` as in ``attend``; ``rotation`` rotates queries and new keys; ``source`` (B, S, D) is for
        cross-attention.
        """
        q, k, v = self._read_source(x, source, cache) if self.cross else self._read_self(x, rotation)
        if cache is not None and not self.cross:
            k, v = cache.append(k, v)
        readers = (
            q.shape[0] // k.shape[0]
        )  # how many rows read each source (``State.reorder``): they act as further queries
        if readers > 1:
            q = q.unflatten(0, (-1, readers)).transpose(1, 2).flatten(2, 3)
        dropout = self.dropout if self.training else 0.0
        shared = self.n_heads // self.n_kv_heads  # how many heads read the same keys and values
        if shared > 1 and q.shape[2] == 1 and self.watch is None and (mask is None or mask.shape[1] == 1):
            q = q.unflatten(1, (-1, shared)).flatten(2, 3)  # (B, G, H / G, K): of one token, they act as its queries
            y = attend(q, k, v, mask, False, dropout).flatten(1, 2)[:, :, None]  # (B, H, 1, K)
            return self.out(y.transpose(1, 2).flatten(2))
        if shared > 1:
            k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)  # (B, H, S, K)
        y = attend(q, k, v, mask, causal, dropout, self.window)  # (B, H, T, K)
        if self.watch is not None:
            self.watch(attention_weights(q, k, self._window_mask(q, mask, causal), causal))
        if readers > 1:
            y = y.unflatten(2, (readers, -1)).transpose(1, 2).flatten(0, 1)
        return self.out(y.transpose(1, 2).flatten(2))  # (B, T, D)

    def _window_mask(self, q: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
        """The mask equivalent to a window without a mask, for showing the weights."""
        if self.window is None or mask is not None:
            return mask
        positions = torch.arange(q.shape[2], device=q.device)[None]
        return attention_mask(positions, positions, causal=causal, window=self.window)

    def _read_self(self, x: Tensor, rotation: Rotation | None):
        """Queries (B, H, T, K), keys and values (B, G, T, K) of self-attention; normalised, then rotated."""
        heads = self.qkv(x).unflatten(-1, (-1, self.d_head))  # (B, T, H + 2 G, K)
        sizes = [self.n_heads, self.n_kv_heads]
        if self.q_norm is None and rotation is None:
            q, k, v = heads.split([*sizes, self.n_kv_heads], dim=2)
            return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        qk, v = heads.split([sum(sizes), self.n_kv_heads], dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            qk = self._normalised(qk, sizes)
        qk = qk.transpose(1, 2)  # (B, H + G, T, K)
        if rotation is not None:
            qk = rotation(qk)
        q, k = qk.split(sizes, dim=1)
        return q, k, v.transpose(1, 2)

    def _normalised(self, qk: Tensor, sizes: list[int]) -> Tensor:
        """Queries and keys (B, T, H + G, K), each normalised by its own norm; RMSNorm does both in one call."""
        of_q, of_k = self.q_norm, self.k_norm
        assert of_q is not None and of_k is not None
        if isinstance(of_q, RMSNorm) and isinstance(of_k, RMSNorm):
            if of_q.weight is None or of_k.weight is None:
                return of_q(qk)
            if torch.is_grad_enabled():
                weights = [of_q.weight.expand(sizes[0], -1), of_k.weight.expand(sizes[1], -1)]
                return rms_norm(qk, torch.cat(weights), of_q.eps)  # (H + G, K)
        q, k = qk.split(sizes, dim=2)
        return torch.cat([of_q(q), of_k(k)], dim=2)

    def _read_source(self, x: Tensor, source: Tensor | None, cache: KeyValueCache | None):
        """Queries (B, H, T, K) from ``x``; keys and values (B, G, S, K) from ``source``, or from a full ``cache``."""
        q = self.q(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2)  # (B, H, T, K)
        if cache is not None and cache.length:
            k, v = cache.read()
        else:
            k, v = self.source_keys(source)
            if cache is not None:
                k, v = cache.append(k, v)
        if self.q_norm is not None:
            q = self.q_norm(q)
        return q, k, v

    def source_keys(self, source: Tensor | None) -> tuple[Tensor, Tensor]:
        """Keys and values of cross-attention: (B, S, D) -> (B, G, S, K) each."""
        kv = self.kv(source).unflatten(-1, (-1, self.d_head)).transpose(1, 2)  # (B, 2 G, S, K)
        k, v = kv.split(self.n_kv_heads, dim=1)
        return (k if self.k_norm is None else self.k_norm(k)), v
