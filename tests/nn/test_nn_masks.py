"""Masks, written out as the 0/1 matrices that they should be: 1 = may attend."""

import pytest
import torch

from headway.nn.masks import attention_mask, source_mask, token_positions, with_bias


def rows(mask):
    """(1, 1, T, S) bool -> the rows as strings of 0 and 1."""
    return ["".join("1" if allowed else "0" for allowed in row) for row in mask[0, 0].tolist()]


def positions(length, start=0):
    return torch.arange(start, start + length)[None]


@pytest.mark.parametrize(
    ("causal", "window", "expected"),
    [
        (True, None, ["10000", "11000", "11100", "11110", "11111"]),
        (False, None, ["11111", "11111", "11111", "11111", "11111"]),
        (True, 2, ["10000", "11000", "01100", "00110", "00011"]),
        (False, 2, ["11000", "11100", "01110", "00111", "00011"]),
        (True, 1, ["10000", "01000", "00100", "00010", "00001"]),
    ],
)
def test_square(causal, window, expected):
    assert rows(attention_mask(positions(5), positions(5), causal=causal, window=window)) == expected


@pytest.mark.parametrize(("window", "expected"), [(None, ["1111110", "1111111"]), (3, ["0001110", "0000111"])])
def test_cached_queries_are_the_last_of_the_keys(window, expected):
    mask = attention_mask(positions(2, start=5), positions(7), causal=True, window=window)
    assert rows(mask) == expected


@pytest.mark.parametrize(
    ("tokens", "causal", "window", "expected"),
    [
        ("00111", True, None, ["10100", "01100", "00100", "00110", "00111"]),
        ("11100", True, None, ["10000", "11000", "11100", "11110", "11101"]),
        ("00111", False, None, ["00111"]),  # one row: where nothing else limits them, all queries see the same
        ("11100", False, None, ["11100"]),
        ("00000", False, None, ["11111"]),  # a text without any token: its softmax is of something
        ("00111", False, 2, ["10110", "01110", "00110", "00111", "00011"]),
        ("01011", True, 2, ["11000", "01000", "01100", "01010", "00011"]),  # a hole does not count as distance
    ],
)
def test_no_token_reads_padding(tokens, causal, window, expected):
    """Padding in front of the first token has its position, so it may read it; and a query may read itself."""
    mask = torch.tensor([[letter == "1" for letter in tokens]])
    places = token_positions(mask)
    assert rows(attention_mask(places, places, causal=causal, window=window, key_mask=mask)) == expected


def test_positions_are_counted_over_tokens():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], dtype=torch.bool)
    assert token_positions(mask).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 2, 2], [0, 0, 0, 1, 2]]


def test_source_mask_is_the_same_for_every_query():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert source_mask(mask).shape == (2, 1, 1, 3)
    assert source_mask(mask)[:, 0, 0].tolist() == mask.tolist()


def test_a_source_without_tokens_is_refused():
    with pytest.raises(ValueError, match="source 1 of the batch has no tokens"):
        source_mask(torch.tensor([[True, False], [False, False]]))


def test_bias_is_minus_infinity_where_forbidden():
    mask, bias = torch.tensor([[[[True, False]]]]), torch.tensor([[[[0.5, 0.25]]]])
    assert with_bias(mask, bias).tolist() == [[[[0.5, float("-inf")]]]]
    assert with_bias(mask, None) is mask
    assert with_bias(None, bias) is bias
