"""Attention in pieces equals attention to all keys with a window's mask, forward and backward."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headway.nn.attention import Attention
from headway.nn.kernels.attention import attend_oracle, attend_window, window_scores
from headway.nn.masks import attention_mask

B, H, K = 3, 5, 7


def inputs(length):
    torch.manual_seed(length)
    return [torch.randn(B, H, length, K, requires_grad=True) for _ in range(3)]


def window_mask(length, window, causal):
    places = torch.arange(length)[None]
    return attention_mask(places, places, causal=causal, window=window)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("length", "window"), [(1, 1), (11, 1), (11, 2), (11, 3), (12, 3), (11, 11), (7, 13), (29, 5), (5, 4), (7, 1000)]
)
def test_equals_the_masked_oracle(length, window, causal):
    fast, slow = inputs(length), inputs(length)
    found = attend_window(*fast, window, causal)
    expected, _ = attend_oracle(*slow, window_mask(length, window, causal))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    upstream = torch.randn_like(found)
    found.backward(upstream)
    expected.backward(upstream)
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=0)


@pytest.mark.parametrize("causal", [True, False])
def test_a_short_text_costs_no_more_than_attention_to_all_of_it(causal):
    """A window of 4,096, as Mistral's, is no reason to compute so many scores for a text of 20 tokens."""
    for length, window in [(20, 4096), (20, 20), (20, 19), (40, 3)]:
        layer, x = Attention(16, 2, d_head=8, window=window), torch.randn(1, length, 16)
        with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            layer(x, causal=causal)
        linear = 2 * length * 16 * 64
        counted = window_scores(length, window, causal)
        assert counter.get_total_flops() == linear + 2 * 2 * 2 * 8 * counted
        assert counted <= length * length and (window < 19 or counted == length * length)


@pytest.mark.parametrize("causal", [True, False])
def test_a_layer_with_a_window_takes_the_fast_path_and_agrees_with_its_mask(causal):
    layer, x = Attention(17, H, d_head=K, window=3), torch.randn(B, 11, 17)
    mask = window_mask(11, 3, causal)
    torch.testing.assert_close(layer(x, causal=causal), layer(x, mask=mask), atol=1e-5, rtol=0)
