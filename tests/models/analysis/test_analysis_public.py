"""What looks inside a model has one place to be imported from, and is on a page."""

from pathlib import Path

import torch

from headway.models import analysis
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder

PAGE = Path(__file__).parents[3] / "docs" / "inside.md"


def test_every_public_name_is_there_and_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    for name in analysis.__all__:
        assert getattr(analysis, name).__doc__
        assert name in page or name in ("PositionTable", "fused_difference")


def test_the_lens_and_the_attribution_serve_the_model_of_a_pipeline():
    torch.manual_seed(0)
    model = Decoder(TransformerConfig(47, d_model=28, n_layers=3, n_heads=2)).eval()
    ids = torch.randint(47, (2, 5))
    lens = analysis.logit_lens(model, ids)
    assert lens.shape == (4, 2, 5, 47)
    with torch.no_grad():
        assert torch.equal(lens[-1], model(ids))
    parts = analysis.gradient_times_input(model, ids, logit=(2, 11))["self"]
    assert parts.shape == (2, 5) and parts[:, 3:].eq(0).all() and parts[:, :3].ne(0).any()
