"""One whole block, worked out with plain numbers."""

import math

import pytest
import torch
from torch import nn

from headway.nn.activations import ACTIVATIONS
from headway.nn.attention import Attention
from headway.nn.block import Block, Residual
from headway.nn.feedforward import FeedForward
from headway.nn.norm import LayerNorm, RMSNorm

# Every matrix is given as rows: y[i] = Σ_j M[i][j] x[j].
Q, K, V, O = [[1, 2], [0, 1]], [[1, 0], [1, 1]], [[2, 1], [0, 1]], [[1, 1], [0, 2]]
UP, DOWN = [[1, -1], [2, 0], [0, 1]], [[1, 0, 1], [0, 1, -1]]
X = [[1.0, 2.0], [-0.5, 0.25]]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def plus(one, other):
    return [a + b for a, b in zip(one, other, strict=True)]


def rms(vector):
    scale = 1 / math.sqrt(sum(x * x for x in vector) / len(vector) + 1e-6)
    return [x * scale for x in vector]


def attention_by_hand(x):
    """Causal attention of one head with K = 2."""
    q, k, v = ([times(matrix, vector) for vector in x] for matrix in (Q, K, V))
    out = []
    for t, query in enumerate(q):
        exps = [math.exp(sum(a * b for a, b in zip(query, k[s], strict=True)) / math.sqrt(2)) for s in range(t + 1)]
        mixed = [sum(e * v[s][i] for s, e in enumerate(exps)) / sum(exps) for i in range(2)]
        out.append(times(O, mixed))
    return out


def feedforward_by_hand(vector):
    return times(DOWN, [max(0.0, x) for x in times(UP, vector)])


@pytest.mark.parametrize("order", ["pre", "post"])
def test_block_by_hand(order):
    attention = Attention(2, 1)
    feedforward = FeedForward(2, 3, activation="relu", gated=False, bias=False)
    block = Block(attention, feedforward, lambda: RMSNorm(2, 1e-6), order=order)
    attention.qkv.weight.data = torch.tensor(Q + K + V).float()
    attention.out.weight.data = torch.tensor(O).float()
    feedforward.up.weight.data = torch.tensor(UP).float()
    feedforward.out.weight.data = torch.tensor(DOWN).float()
    if order == "pre":
        x = [plus(x, y) for x, y in zip(X, attention_by_hand([rms(x) for x in X]), strict=True)]
        expected = [plus(x, feedforward_by_hand(rms(x))) for x in x]
    else:
        x = [rms(plus(x, y)) for x, y in zip(X, attention_by_hand(X), strict=True)]
        expected = [rms(plus(x, feedforward_by_hand(x))) for x in x]
    found = block(torch.tensor([X]), causal=True)[0]
    assert found.tolist() == [pytest.approx(row, abs=1e-5) for row in expected]


@pytest.mark.parametrize(
    ("name", "at_two", "at_minus_one"),
    [
        ("relu", 2.0, 0.0),
        ("relu2", 4.0, 0.0),
        ("silu", 2 / (1 + math.exp(-2)), -1 / (1 + math.e)),
        ("gelu", 1 + math.erf(2 / math.sqrt(2)), -0.5 * (1 + math.erf(-1 / math.sqrt(2)))),
        ("gelu_tanh", 1 + math.tanh(math.sqrt(2 / math.pi) * (2 + 0.044715 * 8)),
         -0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (-1 - 0.044715)))),
        ("tanh", math.tanh(2), math.tanh(-1)),
    ],
)  # fmt: skip
def test_activations(name, at_two, at_minus_one):
    assert ACTIVATIONS[name](torch.tensor([2.0, -1.0])).tolist() == pytest.approx([at_two, at_minus_one], abs=1e-6)


def test_the_first_half_of_a_gated_matrix_is_the_gate():
    layer, x = FeedForward(5, 7, activation="silu", gated=True, bias=True), torch.randn(3, 5)
    gate, up = layer.up.weight.split(7), layer.up.bias.split(7)
    gate, up = x @ gate[0].T + up[0], x @ gate[1].T + up[1]
    expected = (gate * torch.sigmoid(gate) * up) @ layer.out.weight.T + layer.out.bias
    torch.testing.assert_close(layer(x), expected, atol=1e-6, rtol=0)


def test_unknown_words_are_refused():
    with pytest.raises(ValueError, match="'swish' is not one of relu"):
        FeedForward(5, 7, activation="swish", gated=False, bias=False)
    with pytest.raises(ValueError, match="'middle' is not 'pre' or 'post'"):
        Residual(nn.Identity(), LayerNorm(5), "middle")
