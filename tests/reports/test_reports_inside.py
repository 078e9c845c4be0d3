"""Pictures of what is inside a model are written, whatever the tokens are called."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headway.models.analysis.statistics import position_tables
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder, EncoderDecoder
from headway.reports import inside

NAMES = ["a", "$x_", "<b>", "&amp;", "long" * 9]


def check(place: Path, *said: str) -> None:
    assert place.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    svg = place.with_suffix(".svg").read_text(encoding="utf-8")
    for words in said:
        assert words in svg, words


def test_maps_and_statistics(tmp_path: Path):
    maps = torch.rand(2, 3, 5, 7).softmax(-1)
    inside.draw_maps(tmp_path / "maps", maps, NAMES, list("abcdefg"))
    check(tmp_path / "maps", ">2.3<", ">$x_<", ">&lt;b&gt;<", "token attended to", ">weight<")
    inside.draw_maps(tmp_path / "one", maps[:1, :1], NAMES, list("abcdefg"))
    inside.draw_maps(tmp_path / "many", torch.rand(1, 2, 67, 67))
    check(tmp_path / "many", ">1.2<")
    found = {"entropy": torch.rand(2, 3), "previous_token": np.random.rand(2, 3), "induction": torch.rand(2, 3)}
    inside.draw_statistics(tmp_path / "numbers", {**found, "distance": torch.rand(2, 3)})
    check(tmp_path / "numbers", "entropy (nats)", "mean distance (tokens)", "induction score", ">head<")
    inside.draw_statistics(tmp_path / "single", {"entropy": torch.rand(2, 3)})


@pytest.mark.parametrize(
    ("kind", "said"),
    [("sinusoidal", "sinusoidal table"), ("learned", "learned table"), ("rotary", "tokens in one turn"),
     ("alibi", "ALiBi biases"), ("relative", "T5 (relative) biases")],
)  # fmt: skip
def test_positions(tmp_path: Path, kind: str, said: str):
    config = TransformerConfig(31, d_model=20, n_heads=2, n_layers=2, positions=kind)
    inside.draw_positions(tmp_path / "one", position_tables(Decoder(config)))
    check(tmp_path / "one", said)
    if kind == "alibi":
        inside.draw_positions(tmp_path / "two", position_tables(EncoderDecoder(config)))
        check(tmp_path / "two", "encoder: ALiBi", "decoder: ALiBi")


def test_lens_and_attribution(tmp_path: Path):
    probabilities = torch.zeros(3, 5, 4)
    probabilities[..., 2] = 0.9
    inside.draw_lens(tmp_path / "lens", probabilities, NAMES, ["w", "x", "$y$", "z"])
    check(tmp_path / "lens", ">embedding<", ">$y$<", "after layer")
    inside.draw_attribution(tmp_path / "bars", torch.tensor([0.5, -0.25, 0, 1, 2]), NAMES, "the logit of $y$")
    check(tmp_path / "bars", ">&amp;amp;<", "gradient × input")
