"""What attention has in common with other networks: permutations, convolutions and recurrences."""

import math

import pytest
import torch
import torch.nn.functional as F

from headway.models.config import TransformerConfig
from headway.models.transformer import Encoder
from headway.nn.kernels.attention import attend_oracle
from headway.nn.state import KeyValueCache

T, K = 13, 5


def test_permuting_tokens_permutes_the_output():
    """Without positions an encoder sees a set: every token is compared with all others, wherever they stand.

    So permuting the tokens permutes the vectors and changes nothing else; order has to be told by positions.
    """
    torch.manual_seed(0)
    ids, permutation = torch.randint(31, (3, 7)), torch.randperm(7)
    sizes = {"d_model": 20, "n_heads": 2, "n_layers": 2}
    blind = Encoder(TransformerConfig(31, positions="none", **sizes))
    torch.testing.assert_close(blind(ids[:, permutation]), blind(ids)[:, permutation], atol=1e-5, rtol=0)
    ordered = Encoder(TransformerConfig(31, positions="rotary", **sizes))
    assert (ordered(ids[:, permutation]) - ordered(ids)[:, permutation]).abs().max() > 1e-3


@pytest.fixture
def by_distance():
    """A bias for each distance -2, ..., 2 between key and query, minus infinity beyond: (1, 1, T, T) and its kernel."""
    scores = torch.tensor([0.5, -1.0, 2.0, 0.0, 1.0])
    ahead = torch.arange(T)[None, :] - torch.arange(T)[:, None]  # (T, T), key minus query
    near = ahead.abs() <= 2
    bias = torch.where(near, scores[(ahead + 2).clamp(0, 4)], float("-inf"))
    return bias[None, None], scores.softmax(dim=0)


def test_attention_by_distance_alone_is_a_convolution(by_distance):
    """When scores depend on the distance alone, every query weighs its neighbours alike: a convolution.

    With zero queries the scores are the bias, the same numbers on every diagonal.  The softmax of those is the
    convolution's kernel; at the ends, where neighbours are missing, the softmax shares their weight among the rest.
    """
    bias, kernel = by_distance
    values = torch.randn(1, 1, T, K)
    nothing = torch.zeros(1, 1, T, K)
    found, weights = attend_oracle(nothing, nothing, values, bias)
    channels = values[0, 0].T[None]  # (1, K, T)
    expected = F.conv1d(channels, kernel.expand(K, 1, 5), groups=K)[0].T  # (T - 4, K): the interior
    torch.testing.assert_close(found[0, 0, 2:-2], expected, atol=1e-6, rtol=0)
    for offset in range(-2, 3):  # the interior of the weights is a Toeplitz matrix: constant along diagonals
        diagonal = weights[0, 0, 2:-2].diagonal(offset + 2)
        torch.testing.assert_close(diagonal, kernel[offset + 2].expand(len(diagonal)), atol=1e-6, rtol=0)


def test_linear_attention_is_a_recurrence_with_a_state_of_fixed_size():
    """Without the softmax, Σ_{s≤t} (q_t · k_s) v_s = q_t · Σ_{s≤t} k_s v_sᵀ: a K × K state that is added to.

    The sum may be taken in the other order, so nothing of the past is kept but one matrix: a recurrent network.
    """
    q, k, v = torch.randn(3, T, K)
    expected = (q @ k.T).tril() @ v
    state, found = torch.zeros(K, K), []
    for t in range(T):
        state = state + k[t, :, None] * v[t, None, :]  # (K, K), however long the text
        found.append(q[t] @ state)
    torch.testing.assert_close(torch.stack(found), expected, atol=1e-5, rtol=0)


def test_softmax_attention_needs_a_state_that_grows():
    """The softmax divides by a sum over all keys of each query's own: no fixed matrix holds it, so all are kept.

    The cache is that state; it grows with the text, and every one of its entries has a say in the next answer.
    """
    q, k, v = torch.randn(3, 1, 1, T, K)
    cache, sizes, found = KeyValueCache(), [], []
    for t in range(T):
        keys, values = cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1])
        sizes.append(keys.numel() + values.numel())
        found.append(attend_oracle(q[:, :, t : t + 1], keys, values)[0])
    assert sizes == [2 * K * (t + 1) for t in range(T)]
    expected, weights = attend_oracle(q, k, v, causal=True)
    torch.testing.assert_close(torch.cat(found, dim=2), expected, atol=1e-6, rtol=0)
    assert (weights[0, 0, -1] > 0).all()


def test_the_scale_keeps_scores_at_unit_size():
    """Products of K independent unit numbers have variance K; dividing by √d_k keeps the softmax off its flat ends."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 1009, 64)
    assert float((q @ k.T / math.sqrt(64)).std()) == pytest.approx(1.0, abs=0.05)
