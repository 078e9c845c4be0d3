"""What a model is told of positions, against what its own parts compute."""

import math

import pytest
import torch

from headway.models.analysis.statistics import position_tables
from headway.models.config import Positions, RopeScaling, TransformerConfig
from headway.models.transformer import Decoder, Encoder, EncoderDecoder

T, H = 13, 3
CONFIG = TransformerConfig(31, d_model=30, n_heads=H, n_layers=2, max_length=11)


def table(kind, wiring=Encoder, length=T, **changes):
    torch.manual_seed(0)
    found = position_tables(wiring(CONFIG.but(positions=kind, **changes)), length)
    assert list(found) == ["self"] and not found["self"].values.requires_grad
    return found["self"]


def test_tables_that_are_added():
    found = table("sinusoidal")
    assert found.kind == "sinusoidal" and found.values.shape == (T, 30)
    assert float(found.values[5, 2]) == pytest.approx(math.sin(5 / 10000 ** (2 / 30)), abs=1e-6)
    assert table("learned").values.shape == (11, 30)  # the model has no more
    assert table("learned", length=7).values.shape == (7, 30)


def test_rotary_wavelengths():
    expected = torch.tensor([2 * math.pi * 10000 ** (2 * pair / 10) for pair in range(5)])
    torch.testing.assert_close(table("rotary").values, expected, rtol=1e-5, atol=0)
    slower = table(Positions(scaling=RopeScaling("linear", factor=4.0))).values
    torch.testing.assert_close(slower, 4 * expected, rtol=1e-5, atol=0)


def test_biases():
    alibi = table("alibi", Decoder)
    assert alibi.causal and not table("alibi").causal
    assert alibi.kind == "alibi" and alibi.values.shape == (H, 2 * T - 1)
    assert alibi.values[:, T - 1].tolist() == [0] * H
    torch.testing.assert_close(alibi.values[:, T - 1 - 3], 3 * alibi.values[:, T - 2])
    model = Encoder(CONFIG.but(positions=Positions("relative", buckets=8, max_distance=9)))
    found = position_tables(model, T)["self"].values
    own = model.stack.relative(torch.arange(T)[None], torch.arange(T)[None])[0]  # (H, T, T)
    for query in range(T):
        torch.testing.assert_close(found[:, T - 1 - query : 2 * T - 1 - query], own[:, query])


def test_both_stacks_and_refusals():
    both = position_tables(EncoderDecoder(CONFIG.but(positions="alibi"), CONFIG), T)
    assert {name: found.kind for name, found in both.items()} == {"encoder": "rotary", "decoder": "alibi"}
    with pytest.raises(ValueError, match="no position encoding"):
        table("none")
    with pytest.raises(TypeError, match="Linear is not an Encoder"):
        position_tables(torch.nn.Linear(3, 5))
