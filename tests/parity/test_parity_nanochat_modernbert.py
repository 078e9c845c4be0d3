"""nanochat and ModernBERT: models configured here, older files, and vectors without a head."""

import json

import pytest
import torch
import transformers
from families import FAMILIES, model
from kit import BOUND, C, V, check_mutation, difference, inputs, redraw
from safetensors.torch import load_file

from headway.hub.directory import load_model, save_model
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import ClassificationHead, MaskedTokenHead
from headway.models.transformer import Decoder, Encoder

SIZES = {"d_model": 42, "n_heads": 3, "n_layers": 3, "d_ff": 17, "max_length": 29}


def configured(kind):
    """Models as a user would configure them, that a family expresses."""
    if kind == "decoder":
        config = TransformerConfig(
            V, **SIZES, norm_parameters="none", activation="relu2", gated=False, embedding_norm=True, qk_norm=True,
            n_kv_heads=1, tied=False,
        )  # fmt: skip
        return Decoder(config)
    config = TransformerConfig(
        V, **SIZES, norm="layernorm", activation="gelu", embedding_norm=True, first_norm=False, window=(None, 3, 3),
        bias=("head", "ff"), positions=Positions("rotary", base=1009.0, window_base=101.0),
    )  # fmt: skip
    ours = Encoder(config)
    if kind == "masked":
        ours.head = MaskedTokenHead(config, ours.stack.embedding.tokens)
    elif kind == "classes":
        ours.head = ClassificationHead(config, C, pooling="mean", activation="silu", norm=True)
    return ours


@pytest.mark.parametrize("kind", ["decoder", "encoder", "masked", "classes"])
def test_a_model_configured_here_is_read_there(kind, tmp_path):
    ours = redraw(configured(kind))
    save_model(ours, tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    other = getattr(transformers, written["architectures"][0]).from_pretrained(tmp_path).eval()
    assert difference(ours, other, "right") <= BOUND


def test_epsilon_counts_where_activations_are_small(tmp_path):
    other = model("nanochat")
    with torch.no_grad():
        other.model.embed_tokens.weight.mul_(0.05)
    check_mutation(other, tmp_path, rms_norm_eps=1e-4)


@torch.no_grad()
def test_nanochat_without_a_head(tmp_path):
    """Its vectors leave a norm without weights, so that they spread by 1 and no more."""
    other = redraw(transformers.NanoChatModel(transformers.NanoChatConfig(**FAMILIES["nanochat"].sizes)))
    other.save_pretrained(tmp_path / "theirs")
    ours, (ids, mask) = load_model(tmp_path / "theirs"), inputs("right")
    save_model(ours, tmp_path / "ours")
    back, report = transformers.NanoChatModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for one in (other, back.eval()):
        answer = one(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        assert (ours(ids, mask) - answer)[mask].abs().max() <= BOUND


def test_a_tied_matrix_is_stored_once(tmp_path):
    ours = redraw(configured("masked"))
    save_model(ours, tmp_path)
    assert "decoder.weight" not in load_file(tmp_path / "model.safetensors")


def test_the_older_form_of_a_configuration_reads_the_same(tmp_path):
    """ModernBERT was published with two rotary bases and a rhythm of layers where lists are written today."""
    other = model("modernbert")
    other.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    written = json.loads(path.read_text())
    for name in ("rope_parameters", "layer_types"):
        del written[name]
    older = {"global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "global_attn_every_n_layers": 3}
    path.write_text(json.dumps({**written, **older}))
    ours = load_model(tmp_path)
    assert ours.config.position == Positions("rotary", base=160000.0, window_base=10000.0)
    assert [ours.config.layer_window(layer) for layer in range(5)] == [None, 4, 4, None, 4]
    assert difference(ours, other) <= BOUND


@pytest.mark.parametrize(
    ("kinds", "every"),
    [("fsffs", None), ("fssfs", 3), ("fffff", 1), ("fssss", 5), ("sssss", None)],
)
def test_the_older_form_is_written_too(kinds: str, every: int | None, tmp_path):
    """transformers 4 reads no other one: without it, its defaults would make another model."""
    far, near = "f" in kinds, "s" in kinds
    windows = tuple({"f": None, "s": 4}[kind] for kind in kinds)
    config = TransformerConfig(
        61, d_model=24, n_layers=5, n_heads=3, d_ff=29, max_length=31, norm="layernorm", activation="gelu",
        embedding_norm=True, first_norm=False, window=windows if near else None,
        positions=Positions("rotary", base=101.0 if far else 11.0, window_base=11.0 if far and near else None),
    )  # fmt: skip
    save_model(Encoder(config), tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written.get("global_attn_every_n_layers") == every
    assert written["global_rope_theta"] == (101.0 if far else 11.0)
    assert written["local_rope_theta"] == (11.0 if near else 101.0)
