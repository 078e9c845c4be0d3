"""A model part by part: the parts add up, and are those of the model that was loaded."""

from types import SimpleNamespace

import pytest

from headway.api import train
from headway.cli import explain as module
from headway.cli.explain import explain
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import MaskedTokenHead, PoolingHead
from headway.models.size import forward_flops
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.workflows.load import load

TINY = {"steps": 2, "d_model": 26, "layers": 3, "heads": 1, "length": 19, "precision": "float32", "quiet": True}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("explain")
    (place / "text.txt").write_text("a thing that was said before is said again, in other words\n" * 23)
    (place / "rows.csv").write_text("text,label\n" + "".join(f"word {i} of many,{'ab'[i % 2]}\n" for i in range(31)))
    train(place / "text.txt", out=place / "decoder", tokenizer="char", **TINY)
    train(place / "rows.csv", out=place / "encoder", **TINY)
    return place


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_parts_add_up(runs, kind):
    pipe = load(runs / kind)
    found = explain(pipe, "a thing again")
    assert found["wiring"] == kind
    assert sum(row["parameters"] for row in found["blocks"]) == sum(p.numel() for p in pipe.model.parameters())
    assert found["bytes"] == 4 * found["parameters"]
    assert set(found["blocks"][0]) == {"name", "kind", "shapes", "parameters", "flops_per_token"}
    names = [row["name"] for row in found["blocks"]]
    assert names[:3] == ["embedding", "block 1 attention", "block 1 feedforward"] and names[-2:] == ["norm", "head"]
    flops = sum(row["flops_per_token"] for row in found["blocks"])
    assert flops == pytest.approx(found["flops_per_token"])
    if kind == "decoder":
        assert flops == pytest.approx(forward_flops(pipe.model.config, 1, 19) / 19)
        assert found["cache_bytes_per_token"] == 2 * 3 * 26 * 4
    else:
        assert found["cache_bytes_per_token"] is None


def test_the_way_of_a_text(runs):
    found = explain(load(runs / "decoder"), "a thing")
    assert found["tokens"] == list("a thing")
    shapes = {step["name"]: step["shape"] for step in found["path"]}
    assert shapes["embedding"] == shapes["block 3 feedforward"] == shapes["norm"] == [1, 7, 26]
    assert shapes["head"] == [1, 7, load(runs / "decoder").tokenizer.vocab_size]
    assert found["attention"] == {"self": [1, 1, 7, 7]}
    found = explain(load(runs / "encoder"), "word 7")
    assert found["tokens"][0] == "[CLS]" and found["path"][-1] == {"name": "head", "shape": [1, 2]}
    assert explain(load(runs / "decoder"), "")["path"][0]["shape"] == [1, 1, 26]


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_what_a_person_sees(runs, kind, in_process):
    out, _ = in_process.passed("explain", runs / kind)
    lines = out.split("\n")
    assert max(len(line) for line in lines[1:] if "Tensor" not in line and '"""' not in line) <= 100
    for part in ("qkv 78 x 26", "blocks 1-3 feedforward", "all other blocks", "class Residual", "def forward"):
        assert part in out
    assert ("KV cache" in out) == (kind == "decoder")


def test_json(runs, in_process):
    found = in_process.json("explain", runs / "decoder")
    assert found["task"] == "language_modeling" and found["seconds"] > 0
    assert sum(row["parameters"] for row in found["blocks"]) == found["parameters"]


SMALL = TransformerConfig(31, d_model=13, n_heads=6, n_kv_heads=3, d_head=10, d_ff=17, n_layers=3, max_length=19)


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        SMALL.but(window=(3, None, 2), tied=False, bias=("qkv", "out", "ff", "head")),
        SMALL.but(norm_order="post", norm="layernorm", positions="learned", segments=2),
        SMALL.but(positions=Positions("relative", buckets=8), qk_norm=True, window=5),
    ],
)
@pytest.mark.parametrize("wiring", ["decoder", "vectors", "masked", "pooled", "both"])
def test_every_wiring_and_configuration(config, wiring):
    model = Encoder(config)
    if wiring == "decoder":
        model = Decoder(config)
    elif wiring == "both":
        model = EncoderDecoder(config, config.but(d_model=17))
    elif wiring == "masked":
        model.head = MaskedTokenHead(config, model.stack.embedding.tokens)
    elif wiring == "pooled":
        model.head = PoolingHead()
    reader = SimpleNamespace(encode=lambda text, special: [1, 2, 3, 5, 7], decode=lambda ids, skip_special: "x")
    found = explain(SimpleNamespace(model=model.eval(), tokenizer=reader), "five tokens")
    counted = sum(p.numel() for p in model.parameters())
    assert found["parameters"] == counted == sum(row["parameters"] for row in found["blocks"])
    assert found["path"][0]["shape"][:2] == [1, 5]
    lines = module._lines("run", {"task": "any", **found})
    assert len([line for line in lines if "attention weights" in line]) == {"both": 3}.get(wiring, 1)
