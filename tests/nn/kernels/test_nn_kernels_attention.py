"""Attention against arithmetic by hand and against its slow oracle, by every way that computes it."""

import math

import pytest
import torch

from headway.nn.kernels.attention import attend_filled, attend_oracle, attend_plain, attention_weights
from headway.nn.kernels.dispatch import PLAIN_SCORES, attend, is_filled, is_plain
from headway.nn.masks import attention_mask, source_mask, token_positions, with_bias
from headway.nn.positions import alibi_bias, alibi_slopes

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


def test_two_by_two_by_hand():
    q, k, v = [[1.0, 2.0], [0.0, -1.0]], [[3.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 10.0]]
    expected = []
    for query in q:
        scores = [(query[0] * key[0] + query[1] * key[1]) / math.sqrt(2) for key in k]
        total = sum(math.exp(score) for score in scores)
        weights = [math.exp(score) / total for score in scores]
        expected.append([weights[0] * v[0][i] + weights[1] * v[1][i] for i in range(2)])
    assert expected[0] == pytest.approx([0.5, 5.0])  # both scores of the first query are 3 / √2
    found = attend(*(torch.tensor(x)[None, None] for x in (q, k, v)))[0, 0]
    assert found.tolist() == [pytest.approx(row, abs=1e-6) for row in expected]


def masks():
    """Every kind of mask, with the number of queries and keys it is for."""
    square, key_mask = torch.arange(T)[None], tokens(T)
    places = token_positions(key_mask)
    causal = attention_mask(square, square, causal=True)
    return {
        "none": (T, T, None, False),
        "triangle": (T, T, None, True),
        "causal": (T, T, causal, False),
        "window": (T, T, attention_mask(square, square, causal=True, window=3), False),
        "window both ways": (T, T, attention_mask(square, square, causal=False, window=3), False),
        "padded": (T, T, attention_mask(places, places, causal=True, key_mask=key_mask), False),
        "cached": (2, S, attention_mask(torch.arange(S)[None, -2:], torch.arange(S)[None], causal=True), False),
        "source": (T, S, source_mask(tokens(S)), False),
        "bias": (T, T, with_bias(causal, alibi_bias(square, square, alibi_slopes(H))), False),
    }


@pytest.mark.parametrize("kind", masks())
def test_fused_equals_oracle(kind):
    n_queries, n_keys, mask, causal = masks()[kind]
    q, k, v = qkv(n_queries, n_keys)
    expected, weights = attend_oracle(q, k, v, mask, causal)
    torch.testing.assert_close(attend(q, k, v, mask, causal), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, H, n_queries), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", masks())
def test_keys_that_fill_up_change_nothing(kind):
    n_queries, n_keys, mask, causal = masks()[kind]
    q, k, v = qkv(n_queries, n_keys)
    expected, _ = attend_oracle(q, k, v, mask, causal)
    torch.testing.assert_close(attend_filled(q, k, v, mask, causal, 16), expected, atol=1e-5, rtol=0)


def test_keys_are_added_only_to_many_without_gradients_and_where_vectors_are_long():
    q, k, _ = qkv(30, 30)  # 14 more than a whole vector
    assert not is_filled(q, k)
    with torch.no_grad():
        assert is_filled(q, k) == (torch.backends.cpu.get_cpu_capability() == "AVX512")
        assert not is_filled(q[:, :, :1], k) and not is_filled(q, k[:, :, :21]) and not is_filled(q.double(), k)
        assert not is_filled(*list(qkv())[:2]), "few scores"


@pytest.mark.parametrize("kind", masks())
def test_bfloat16_equals_the_oracle_within_its_precision(kind):
    """bfloat16 has eight bits: a value near 1 is off by up to 1/256, and the sums here stay below 4."""
    n_queries, n_keys, mask, causal = masks()[kind]
    q, k, v = qkv(n_queries, n_keys, dtype=torch.bfloat16)
    expected, _ = attend_oracle(q.float(), k.float(), v.float(), mask, causal)
    found = attend(q, k, v, mask, causal)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=4 / 256, rtol=2 / 256)


def test_causal_equals_cutting_the_upper_triangle_and_dividing_by_what_is_left():
    q, k, _ = qkv()
    lower = attention_weights(q, k).tril()
    expected = lower / lower.sum(dim=-1, keepdim=True)
    torch.testing.assert_close(attention_weights(q, k, causal=True), expected, atol=1e-6, rtol=0)


def test_causal_is_refused_for_unequal_lengths():
    with pytest.raises(ValueError, match="found 7 queries and 11 keys"):
        attend(*qkv(T, S), causal=True)


@pytest.mark.parametrize("kind", masks())
def test_plain_products_equal_the_oracle_in_values_and_gradients(kind):
    n_queries, n_keys, mask, causal = masks()[kind]
    fast = [x.requires_grad_() for x in qkv(n_queries, n_keys)]
    slow = [x.detach().clone().requires_grad_() for x in fast]
    found, (expected, _) = attend_plain(*fast, mask, causal, 0.0), attend_oracle(*slow, mask, causal)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    upstream = torch.randn_like(found)
    found.backward(upstream)
    expected.backward(upstream)
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=0)


def test_dropout_keeps_weights_as_they_are_on_average():
    q, k, v = qkv()
    found = torch.stack([attend(q, k, v, causal=True, dropout=0.25) for _ in range(3000)])
    expected = attend_oracle(q, k, v, causal=True)[0]
    torch.testing.assert_close(found.mean(dim=0), expected, atol=0.1, rtol=0)
    assert found.std(dim=0).max() > 0.1


@pytest.mark.parametrize(
    ("cpu", "bfloat16", "n_scores", "dropout", "plain"),
    [
        (True, True, PLAIN_SCORES, 0.0, True),
        (True, True, PLAIN_SCORES + 1, 0.0, False),
        (True, True, PLAIN_SCORES + 1, 0.1, True),
        (True, False, 1, 0.0, False),
        (True, False, 1, 0.1, True),
        (False, True, 1, 0.1, False),
    ],
)
def test_when_plain_products_are_chosen(cpu, bfloat16, n_scores, dropout, plain):
    assert is_plain(cpu, bfloat16, n_scores, dropout) == plain


@pytest.mark.parametrize("causal", [True, False])
def test_a_window_without_a_mask_is_its_mask(causal):
    q, k, v = qkv()
    at = torch.arange(T)[None]
    mask = attention_mask(at, at, causal=causal, window=3)
    expected = attend(q, k, v, mask)
    torch.testing.assert_close(attend(q, k, v, causal=causal, window=3), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(attend(q, k, v, mask, window=1), expected)  # a mask says all


@pytest.mark.parametrize("queries", [1, 7])
@pytest.mark.parametrize("masked", [False, True])
def test_fewer_heads_and_rows_of_keys_serve_several_of_queries(queries: int, masked: bool):
    q = torch.randn(2 * B, 2 * H, queries, K)
    k, v = torch.randn(B, H, S, K), torch.randn(B, H, S, K)
    mask = source_mask(tokens(S)) if masked else None
    whole = [x.repeat_interleave(2, dim=0).repeat_interleave(2, dim=1) for x in (k, v)]
    expected = attend_oracle(q, *whole, None if mask is None else mask.repeat_interleave(2, dim=0))[0]
    torch.testing.assert_close(attend(q, k, v, mask), expected, atol=1e-6, rtol=0)
