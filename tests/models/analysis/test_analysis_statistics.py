"""Statistics of heads: against heads made by hand, slow sums, and texts without their padding."""

import math
import runpy
import sys
from pathlib import Path

import pytest
import torch

from headway.models.analysis.maps import attention_maps
from headway.models.analysis.statistics import (
    confidence,
    entropy,
    head_statistics,
    induction_score,
    induction_scores,
    mean_distance,
    patch_distance,
    previous_token_score,
)
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder, Encoder

B, H, T, S = 3, 5, 13, 7


def drawn(*shape, sharpness=2.0):
    return (sharpness * torch.randn(*shape, generator=torch.Generator().manual_seed(1))).softmax(dim=-1)


def attending_to(targets, n=T):
    """A head that gives all its weight to one key for each query: (1, 1, T, T)."""
    return torch.nn.functional.one_hot(torch.tensor(targets), n).float()[None, None]


def test_entropy_is_between_zero_and_that_of_equal_weights():
    found = entropy(drawn(B, H, T, S))
    assert found.shape == (B, H) and (found > 0).all() and (found < math.log(S)).all()
    torch.testing.assert_close(entropy(torch.full((1, 1, T, S), 1 / S)), torch.tensor([[math.log(S)]]))
    assert entropy(attending_to([0] * T)) == 0
    weights = drawn(B, H, T, S)
    slow = [[-sum(w * math.log(w) for w in weights[b, h].flatten().tolist()) / T for h in range(H)] for b in range(B)]
    torch.testing.assert_close(found, torch.tensor(slow))


def test_confidence():
    assert confidence(attending_to([3] * T)) == 1
    torch.testing.assert_close(confidence(torch.full((1, 1, T, S), 1 / S)), torch.tensor([[1 / S]]))


def test_distance_and_the_previous_token():
    before = attending_to([0, *range(T - 1)])
    assert previous_token_score(before) == 1
    torch.testing.assert_close(mean_distance(before), torch.tensor([[(T - 1) / T]]))
    assert previous_token_score(attending_to(range(T))) == 0 == mean_distance(attending_to(range(T)))
    weights = drawn(1, 1, T, T)
    slow = sum(float(weights[0, 0, t, s]) * abs(t - s) for t in range(T) for s in range(T)) / T
    torch.testing.assert_close(float(mean_distance(weights)), slow, atol=1e-6, rtol=0)
    for measure in (mean_distance, previous_token_score):
        with pytest.raises(ValueError, match="13 queries and 7 keys"):
            measure(drawn(B, H, T, S))


def test_distance_between_patches():
    weights = torch.zeros(1, 2, 7, 7)  # 2 rows of 3 patches, and a token before them
    weights[0, 0, 0, 0] = weights[0, 1, :, 0] = 1  # that one is not counted, nor what goes to it
    weights[0, 0, 1:, 6] = 0.5  # every patch to the last, in row 1 and column 2, and as much to the token before
    weights[0, 0, 1:, 0] = 0.5
    away = [math.dist((row, column), (1, 2)) for row in range(2) for column in range(3)]
    found = patch_distance(weights, (2, 3))
    assert found[0, 0] == pytest.approx(sum(away) / 6) and found[0, 1] == 0
    with pytest.raises(ValueError, match="expected a class token and 3 × 3 patches"):
        patch_distance(weights, (3, 3))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("wiring", [Encoder, Decoder])
def test_padding_changes_nothing(wiring, side):
    torch.manual_seed(0)
    model = wiring(TransformerConfig(31, d_model=20, n_heads=2, n_layers=3)).eval()
    ids = torch.randint(31, (1, T))
    empty = torch.zeros(1, 4, dtype=torch.int64)
    padded = torch.cat([empty, ids] if side == "left" else [ids, empty], dim=1)
    mask = torch.arange(T + 4)[None] >= 4 if side == "left" else torch.arange(T + 4)[None] < T
    alone = head_statistics(attention_maps(model, ids)["self"])
    found = head_statistics(attention_maps(model, padded, mask)["self"], mask)
    assert set(found) == {"entropy", "confidence", "distance", "previous_token"}
    for name, values in alone.items():
        assert values.shape == (3, 1, 2)
        torch.testing.assert_close(found[name], values, atol=1e-5, rtol=0)


def test_a_perfect_induction_head_scores_one():
    period = 5
    perfect = attending_to([0] * period + [t - period + 1 for t in range(period, 11)], 11)
    assert induction_score(perfect, period) == 1
    beside = attending_to([0] * period + [t - period for t in range(period, 11)], 11)
    assert induction_score(beside, period) == 0
    weights = drawn(B, H, 11, 11)
    slow = torch.stack([weights[:, :, t, t - period + 1] for t in range(period, 11)]).mean(dim=0)
    torch.testing.assert_close(induction_score(weights, period), slow)
    for wrong in (1, 11):
        with pytest.raises(ValueError, match=f"period is {wrong} for 11 tokens"):
            induction_score(weights, wrong)


def test_induction_scores_of_a_model(monkeypatch):
    torch.manual_seed(0)
    model = Decoder(TransformerConfig(11, d_model=20, n_heads=2, n_layers=3, max_length=64)).eval()
    found = induction_scores(model)
    assert found.shape == (3, 2) and (found > 0).all() and (found < 0.3).all()
    assert torch.equal(found, induction_scores(model))
    seen = []

    def perfect(q, k, mask, causal):
        seen.append(q.shape)
        n = q.shape[2]
        return attending_to([max(0, t - 10) for t in range(n)], n).expand(*q.shape[:3], n)

    monkeypatch.setattr("headway.models.analysis.maps.attention_weights", perfect)
    assert torch.equal(induction_scores(model, sequences=7), torch.ones(3, 2))
    assert seen[0][0] == 7 and seen[0][2] == 22  # no id occurs twice in a text, so a period is at most the vocabulary
    with pytest.raises(TypeError, match="Encoder is not a Decoder"):
        induction_scores(Encoder(model.config))
    with pytest.raises(ValueError, match="too small to repeat"):
        induction_scores(Decoder(model.config.but(max_length=3)))


def test_induction_heads_appear(monkeypatch, capsys):
    """What docs/inside.md says of the example: heads for the token before in layer 1, induction heads in layer 2."""
    monkeypatch.setattr(sys, "argv", ["induction_heads.py", "--steps", "250"])
    found = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "induction_heads.py"))
    assert "step 250" in capsys.readouterr().out
    assert found["loss"] < 0.5
    assert found["before"][0].max() > 0.5 > 0.3 > found["before"][1].max()
    scores = induction_scores(found["model"])
    assert scores[1].max() > 0.7 > 0.2 > scores[0].max()
