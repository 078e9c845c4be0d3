"""Dropout by bytes against its oracle, which draws the same numbers."""

import pytest
import torch

from headway.nn.kernels.dispatch import dropout
from headway.nn.kernels.dropout import drawing_from, drop_oracle


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
def test_equals_the_oracle_in_values_and_gradients(p):
    start, upstream, found = torch.randn(3, 5, 7), torch.randn(3, 5, 7), []
    for way in (dropout, drop_oracle):
        x = start.clone().requires_grad_()
        with drawing_from(11):
            y = way(x, p)
        y.backward(upstream)
        found.append((y.detach(), x.grad))
    torch.testing.assert_close(*found, atol=1e-6, rtol=1e-6)


def test_the_share_that_is_dropped():
    with drawing_from(3):
        found = dropout(torch.ones(100_000), 0.25)
    assert sorted(set(found.tolist())) == pytest.approx([0.0, 4 / 3])
    assert (found == 0).double().mean().item() == pytest.approx(0.25, abs=0.01)


def test_bfloat16():
    x = torch.randn(3, 5, 7).bfloat16()
    found = []
    for way in (dropout, drop_oracle):
        with drawing_from(11):
            found.append(way(x, 0.1))
    assert found[0].dtype == torch.bfloat16
    torch.testing.assert_close(*found, atol=0, rtol=2 / 128)
