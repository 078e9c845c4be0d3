"""Attention against arithmetic by hand, against its slow oracle, and against other ways of writing it."""

import math

import pytest
import torch

from headway.nn.attention import Attention
from headway.nn.kernels.attention import attend_oracle
from headway.nn.masks import source_mask
from headway.nn.norm import LayerNorm, RMSNorm
from headway.nn.state import KeyValueCache

B, H, T, S, K = 3, 5, 7, 11, 13


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def qkv(n_queries=T, n_keys=T, dtype=torch.float32):
    return (torch.randn(B, H, length, K, dtype=dtype) for length in (n_queries, n_keys, n_keys))


def tokens(length):
    """Which of ``length`` are tokens, for a batch of three: all, padded on the left, padded on the right."""
    mask = torch.ones(3, length, dtype=torch.bool)
    mask[1, :2] = False
    mask[2, -2:] = False
    return mask


def multihead(n_kv_heads, d_model=17):
    return Attention(d_model, H, n_kv_heads=n_kv_heads, d_head=K, bias=True, out_bias=True)


def test_heads_are_a_sum_of_low_rank_read_outs():
    """Concatenating H heads and projecting by W_O = [W_1 ... W_H] is Σ_h A_h x V_h W_h, of rank K each."""
    attention, x = multihead(H), torch.randn(B, T, 17)
    weight, bias = attention.qkv.weight.view(3, H, K, 17), attention.qkv.bias.view(3, H, K)
    expected = attention.out.bias.expand(B, T, 17)
    for h in range(H):
        q, k, v = (x @ weight[i, h].T + bias[i, h] for i in range(3))  # (B, T, K)
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(K), dim=-1)
        expected = expected + weights @ v @ attention.out.weight[:, h * K : (h + 1) * K].T
    torch.testing.assert_close(attention(x), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 3])
def test_grouped_and_multi_query_equal_the_expanded_multi_head(n_kv_heads):
    n_heads = 6
    few = Attention(17, n_heads, n_kv_heads=n_kv_heads, d_head=K)
    full = Attention(17, n_heads, d_head=K)
    q, k, v = few.qkv.weight.split([n_heads * K, n_kv_heads * K, n_kv_heads * K])
    k, v = (x.view(n_kv_heads, K, 17).repeat_interleave(n_heads // n_kv_heads, dim=0).flatten(0, 1) for x in (k, v))
    full.load_state_dict({"qkv.weight": torch.cat([q, k, v]), "out.weight": few.out.weight})
    x = torch.randn(B, T, 17)
    torch.testing.assert_close(few(x, causal=True), full(x, causal=True), atol=1e-5, rtol=0)


def test_cross_attention_reads_the_source_alone_and_once():
    attention = Attention(17, H, d_head=K, d_source=19)
    x, source, cache = torch.randn(B, T, 17), torch.randn(B, S, 19), KeyValueCache()
    mask = source_mask(tokens(S))
    expected = attention(x, source=source, mask=mask)
    first = attention(x[:, :2], source=source, mask=mask, cache=cache)
    rest = attention(x[:, 2:], source=None, mask=mask, cache=cache)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), expected, atol=1e-5, rtol=0)
    source[~tokens(S)] = 1e3  # what is behind the mask changes nothing
    torch.testing.assert_close(attention(x, source=source, mask=mask), expected, atol=1e-5, rtol=0)


def test_heads_must_share_evenly():
    with pytest.raises(ValueError, match="5 heads cannot share 2"):
        Attention(17, 5, n_kv_heads=2, d_head=K)


@pytest.mark.parametrize("d_source", [None, 19])
@pytest.mark.parametrize("make", [LayerNorm, RMSNorm, lambda width: RMSNorm(width, weight=False)])
def test_queries_and_keys_are_normalised_head_by_head_each_by_its_own_norm(make, d_source):
    attention = Attention(17, 6, n_kv_heads=2, d_head=K, d_source=d_source, qk_norm=make)
    for parameter in (*attention.q_norm.parameters(), *attention.k_norm.parameters()):
        torch.nn.init.normal_(parameter)
    x, source = torch.randn(B, T, 17), None if d_source is None else torch.randn(B, S, 19)
    read = attention.qkv(x).split([6 * K, 4 * K], dim=-1) if source is None else (attention.q(x), attention.kv(source))
    q, kv = (part.unflatten(-1, (-1, K)).transpose(1, 2) for part in read)  # (B, 6, T, K) and (B, 4, S, K)
    k, v = (part.repeat_interleave(3, dim=1) for part in (attention.k_norm(kv[:, :2]), kv[:, 2:]))
    expected, _ = attend_oracle(attention.q_norm(q), k, v)
    expected = attention.out(expected.transpose(1, 2).flatten(2))
    torch.testing.assert_close(attention(x, source=source), expected, atol=1e-5, rtol=0)
