"""Scaled dot-product attention, and the multi-head layer around it (Vaswani et al. 2017, sections 3.2.1 and 3.2.2).

Letters: B batch, T queries, S keys, D width, H query heads, G key-value heads, K head width.
"""

from collections.abc import Callable

from torch import Tensor, nn

from headway.nn.kernels.dispatch import attend
from headway.nn.linear import Linear
from headway.nn.norm import norm_heads
from headway.nn.positions import Rotation
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
        self.attend: Callable[..., Tensor] = attend
        """what weighs the values; ``models.analysis`` puts in its place what also tells the weights"""

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
        if self.cross:
            q, k, v = self._read_source(x, source, cache)
        else:
            heads = self.qkv(x).unflatten(-1, (-1, self.d_head))  # (B, T, H + 2 G, K)
            qk, v = heads.split([self.n_heads + self.n_kv_heads, self.n_kv_heads], dim=2)
            if self.q_norm is not None and self.k_norm is not None:
                qk = norm_heads(qk, self.q_norm, self.k_norm, self.n_heads)
            qk, v = qk.transpose(1, 2), v.transpose(1, 2)  # (B, H + G, T, K), (B, G, T, K)
            if rotation is not None:
                qk = rotation(qk)
            q, k = qk.split([self.n_heads, self.n_kv_heads], dim=1)
            if cache is not None:
                k, v = cache.append(k, v)
        y = self.attend(q, k, v, mask, causal, self.dropout if self.training else 0.0, self.window)  # (B, H, T, K)
        return self.out(y.transpose(1, 2).flatten(2))  # (B, T, D)

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
