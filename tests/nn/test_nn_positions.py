"""Every way of telling positions, against numbers worked out by hand."""

import math

import pytest
import torch

from headway.nn.positions import (
    LearnedPositions,
    PositionEncoding,
    RelativeBias,
    RotaryEncoding,
    alibi_bias,
    alibi_slopes,
    apply_rope,
    dynamic_base,
    rope_angles,
    sinusoids,
    stretch_linear,
    stretch_llama3,
    stretch_yarn,
)


@pytest.mark.parametrize("width", [4, 5, 1])
def test_sinusoids(width):
    for position in (0, 1, 10007):
        expected = []
        for place in range(width):
            angle = position / 10000 ** (2 * (place // 2) / width)
            expected.append(math.sin(angle) if place % 2 == 0 else math.cos(angle))
        assert sinusoids(torch.tensor([position]), width)[0].tolist() == pytest.approx(expected, abs=1e-3)


def test_sinusoids_are_exact_where_angles_are_small():
    assert sinusoids(torch.tensor([3]), 3)[0].tolist() == pytest.approx(
        [math.sin(3), math.cos(3), math.sin(3 / 10000 ** (2 / 3))], abs=1e-6
    )


def test_rotation_by_hand():
    """Position 3, K = 4, base 100: the pair (x0, x2) turns by 3, the pair (x1, x3) by 3 / 100^(2/4) = 0.3."""
    x = [1.0, 2.0, 3.0, 4.0]
    expected = [
        1.0 * math.cos(3) - 3.0 * math.sin(3),
        2.0 * math.cos(0.3) - 4.0 * math.sin(0.3),
        3.0 * math.cos(3) + 1.0 * math.sin(3),
        4.0 * math.cos(0.3) + 2.0 * math.sin(0.3),
    ]
    found = apply_rope(torch.tensor(x).view(1, 1, 1, 4), *rope_angles(torch.tensor([[3]]), 4, 100.0))
    assert found.flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_what_is_past_the_rotated_width_stays():
    x = torch.randn(3, 5, 7, 11)
    turned = apply_rope(x, *rope_angles(torch.arange(7)[None], 6, 10000.0))
    assert torch.equal(turned[..., 6:], x[..., 6:])
    assert torch.equal(turned[:, :, 0], x[:, :, 0])  # position 0 is not turned


def test_products_of_turned_vectors_depend_on_the_difference_of_positions_alone():
    q, k = torch.randn(2, 1, 1, 1, 10)

    def product(query_position, key_position):
        turned = [
            apply_rope(x, *rope_angles(torch.tensor([[p]]), 10, 10000.0))
            for x, p in ((q, query_position), (k, key_position))
        ]
        return float((turned[0] * turned[1]).sum())

    assert product(5, 2) == pytest.approx(product(105, 102), abs=1e-4)
    assert product(5, 2) != pytest.approx(product(2, 5), abs=1e-4)


def test_rotation_equals_a_complex_product():
    x, by = torch.randn(3, 2, 5, 6), rope_angles(torch.arange(5)[None], 6, 10000.0)
    expected = torch.complex(x[..., :3], x[..., 3:]) * torch.complex(*by)
    found = apply_rope(x, *by)
    torch.testing.assert_close(found, torch.cat([expected.real, expected.imag], dim=-1), atol=1e-6, rtol=0)


FREQUENCIES = 1.0 / 100.0 ** (torch.arange(0, 10, 2) / 10)  # base 100, five pairs: 1, 0.398, 0.158, 0.063, 0.025


def test_linear_stretching_is_a_division_of_positions():
    plain = rope_angles(torch.tensor([[2, 3]]), 10, 100.0)
    found = rope_angles(torch.tensor([[8, 12]]), 10, 100.0, lambda f: stretch_linear(f, 4.0))
    for part, expected in zip(found, plain, strict=True):
        torch.testing.assert_close(part, expected, atol=1e-6, rtol=0)


def test_llama3_stretching_by_hand():
    """In 100 tokens the pairs turn 15.9, 6.34, 2.52, 1.004 and 0.4 times; from 1 to 4 turns is between."""
    found = stretch_llama3(FREQUENCIES, 8.0, 100, 1.0, 4.0) / FREQUENCIES
    kept = [(100 * 100 ** (-i / 5) / (2 * math.pi) - 1) / 3 for i in (2, 3)]
    assert found.tolist() == pytest.approx([1, 1, *(k + (1 - k) / 8 for k in kept), 1 / 8], abs=1e-6)


def test_yarn_stretching_by_hand():
    """The pair that turns n times in 100 tokens is 10 ln(100 / 2πn) / (2 ln 100): 1.499 for 4, 3.004 for 1."""
    first, last = (10 * math.log(100 / (2 * math.pi * turns)) / (2 * math.log(100)) for turns in (4, 1))
    found = stretch_yarn(FREQUENCIES, 8.0, 100, 1.0, 4.0, 100.0, whole=False) / FREQUENCIES
    kept = [1, 1, *(1 - (i - first) / (last - first) for i in (2, 3)), 0]
    assert found.tolist() == pytest.approx([k + (1 - k) / 8 for k in kept], abs=1e-6)
    found = stretch_yarn(FREQUENCIES, 8.0, 100, 1.0, 4.0, 100.0) / FREQUENCIES  # from 1 to 4
    assert found.tolist() == pytest.approx([k + (1 - k) / 8 for k in (1, 1, 2 / 3, 1 / 3, 0)], abs=1e-6)


def test_a_size_multiplies_both():
    plain, found = rope_angles(torch.tensor([[3]]), 4, 100.0), rope_angles(torch.tensor([[3]]), 4, 100.0, size=1.5)
    assert all(torch.equal(part, 1.5 * other) for part, other in zip(found, plain, strict=True))


def test_a_dynamic_base_stays_up_to_the_original_length():
    base = dynamic_base(100.0, 10, 3.0, 50, torch.tensor([1, 50, 75]))
    assert base.shape == (3, 1, 1, 1)
    assert base.flatten().tolist() == pytest.approx([100, 100, 100 * (3 * 1.5 - 2) ** (10 / 8)])
    longest = dynamic_base(100.0, 10, 1.0, 50, torch.tensor([200]))  # factor 1: the slowest is a quarter as fast
    assert longest.item() ** -0.8 == pytest.approx(100**-0.8 / 4)


def test_alibi_slopes_as_published():
    assert alibi_slopes(8).tolist() == [1 / 2**i for i in range(1, 9)]
    four, every_second_of_eight = [1 / 4, 1 / 16, 1 / 64, 1 / 256], [1 / 2, 1 / 8]
    assert alibi_slopes(6).tolist() == pytest.approx(four + every_second_of_eight)


def test_alibi_bias_falls_with_distance():
    bias = alibi_bias(torch.tensor([[4, 5]]), torch.arange(3)[None], torch.tensor([0.5, 0.25]))
    assert bias.tolist() == [[[[-2.0, -1.5, -1.0], [-2.5, -2.0, -1.5]], [[-1.0, -0.75, -0.5], [-1.25, -1.0, -0.75]]]]


@pytest.mark.parametrize(
    ("causal", "ahead", "bucket"),
    [
        # causal, 32 buckets up to 128: 16 exact, then 16 + ⌊16 ln(d / 16) / ln 8⌋, at most 31
        (True, [0, -1, -15, -16, -20, -50, -127, -128, -10007], [0, 1, 15, 16, 17, 24, 31, 31, 31]),
        (True, [1, 100], [0, 0]),
        # both ways: 16 buckets for each, 8 exact, then 8 + ⌊8 ln(d / 8) / ln 16⌋; later keys from 16 on
        (False, [0, -7, -8, -12, -50, -127, -10007], [0, 7, 8, 9, 13, 15, 15]),
        (False, [1, 7, 8, 12, 50, 10007], [17, 23, 24, 25, 29, 31]),
    ],
)
def test_relative_buckets(causal, ahead, bucket):
    assert RelativeBias(3, 32, 128, causal=causal).bucket(torch.tensor(ahead)).tolist() == bucket


def test_relative_bias_is_looked_up_by_bucket_and_head():
    bias = RelativeBias(3, 32, 128, causal=False)
    found = bias(torch.tensor([[5, 6]]), torch.tensor([[0, 5, 7]]))
    assert found.shape == (1, 3, 2, 3)
    assert found[0, :, 0, 2].tolist() == bias.table.weight[18].tolist()  # the key is 2 ahead: bucket 16 + 2


def test_learned_positions_are_refused_past_the_trained_length():
    learned = LearnedPositions(7, 5)
    assert torch.equal(learned(torch.arange(7)[None])[0], learned.table.weight)
    with pytest.raises(ValueError, match="8 tokens, but this model has learned positions for 7"):
        learned(torch.arange(8)[None])
    with pytest.raises(ValueError, match="8 tokens, but this model has learned positions for 7"):
        learned(torch.arange(8)[None], 8)


def test_learned_positions_are_told_past_the_trained_length_where_padding_accounts_for_it():
    learned = LearnedPositions(7, 5)
    assert torch.equal(learned(torch.tensor([[0, 0, 6]]), 11)[0], learned.table.weight[[0, 0, 6]])


def test_an_encoding_tells_nothing_unless_it_says_so():
    none, at = PositionEncoding(), torch.arange(7)[None]
    assert none.make_vectors() is None and none.make_biases() is None
    assert none.embed(at, 7) is None and none.rotation(at, None) is None and none.bias(at, at) is None


def test_rotary_layers_with_a_window_have_a_base_of_their_own():
    encoding, at, x = RotaryEncoding(10, 1009.0, window_base=101.0), torch.arange(7)[None], torch.randn(3, 5, 7, 11)
    assert torch.equal(encoding.rotation(at, None)(x), apply_rope(x, *rope_angles(at, 10, 1009.0)))
    assert torch.equal(encoding.rotation(at, 4)(x), apply_rope(x, *rope_angles(at, 10, 101.0)))
