"""Directories that cannot be read or written: one line that names the file, and nothing half done."""

import json
import os
import stat

import pytest
import torch
from hub_kit import check_refused, edited, read_json, reweighed

from headway.hub.directory import load_model, save_model
from headway.io.atomic_write import write_json, write_whole
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, Pooler
from headway.models.transformer import Decoder, Encoder, EncoderDecoder

CONFIG = TransformerConfig(
    31, d_model=26, n_heads=1, n_layers=2, d_ff=17, max_length=29, norm_parameters="none", activation="relu2",
    gated=False, embedding_norm=True, qk_norm=True,
)  # fmt: skip


@pytest.fixture
def directory(tmp_path):
    """A saved decoder, to be spoiled."""
    save_model(Decoder(CONFIG), tmp_path)
    return tmp_path


Q, TABLE, HEAD = "model.layers.1.self_attn.q_proj.weight", "model.embed_tokens.weight", "lm_head.weight"
WEIGHTS, CONFIGURATION = "model.safetensors", "config.json"
SPOILED = {
    "missing weight": (WEIGHTS, lambda w: w.pop(Q), f"missing {Q}"),
    "unknown weight": (WEIGHTS, lambda w: w.update(extra=torch.ones(3)), "unknown extra"),
    "wrong shape": (WEIGHTS, lambda w: w.update({TABLE: torch.ones(31, 7)}), f"{TABLE} has shape [31, 7], expected"),
    "another shape in a stack": (WEIGHTS, lambda w: w.update({Q: torch.ones(26, 7)}), "[26, 7], expected [26, 26]"),
    "a part too long": (WEIGHTS, lambda w: w.update({Q: torch.ones(28, 26)}), "[28, 26], expected [26, 26]"),
    "tied, but not equal": (WEIGHTS, lambda w: w.update({HEAD: torch.ones(31, 26)}), f"{HEAD} differs from the embed"),
    "no weights": (WEIGHTS, lambda p: p.unlink(), "no such file"),
    "weights cut short": (WEIGHTS, lambda p: p.write_bytes(p.read_bytes()[:-7]), "cannot be read as safetensors"),
    "weights are text": (WEIGHTS, lambda p: p.write_text("hello"), "safetensors"),
    "weights are a folder": (WEIGHTS, lambda p: (p.unlink(), p.mkdir()), "read"),
    "no configuration": (CONFIGURATION, lambda p: p.unlink(), "no such file"),
    "broken JSON": (CONFIGURATION, lambda p: p.write_text('{"a": \n'), "not JSON"),
    "deep JSON": (CONFIGURATION, lambda p: p.write_text("[" * 100_000), "at most 64"),
    "not UTF-8": (CONFIGURATION, lambda p: p.write_bytes(b"\xff\xfe\x00"), "not UTF-8"),
    "a list": (CONFIGURATION, lambda p: p.write_text("[1]"), "found a JSON list"),
    "unknown family": (CONFIGURATION, {"model_type": "perceiver"}, "'perceiver' is not one of nanochat"),
    "no family": (CONFIGURATION, {"model_type": None}, "model_type None"),
    "unknown class": (CONFIGURATION, {"architectures": ["LlamaModel"]}, "'LlamaModel' is not one of"),
    "classes are a number": (CONFIGURATION, {"architectures": 3}, ""),
    "a word for a number": (CONFIGURATION, {"hidden_size": "wide"}, "hidden_size is 'wide', expected int"),
    "no heads": (CONFIGURATION, {"num_attention_heads": 0}, "n_heads is 0"),
    "unknown activation": (CONFIGURATION, {"hidden_act": "swish2"}, "hidden_act is 'swish2', expected one of"),
    "rope of another kind": (CONFIGURATION, {"rope_scaling": {"rope_type": "longrope"}}, "'longrope' is not supported"),
    "rope is a list": (CONFIGURATION, {"rope_parameters": [1]}, ""),
    "more layers than weights": (WEIGHTS, {"num_hidden_layers": 3}, "missing model.layers.2"),
    "fewer layers than weights": (WEIGHTS, {"num_hidden_layers": 1}, "unknown model.layers.1"),
}
"""The file that is named; what is changed: entries of the configuration, weights, or the file; and what is said."""


@pytest.mark.parametrize("problem", SPOILED)
def test_a_directory_that_cannot_be_read(problem, directory):
    file, change, said = SPOILED[problem]
    if isinstance(change, dict):
        edited(CONFIGURATION, **change)(directory)
    elif change.__code__.co_varnames == ("w",):
        reweighed(change)(directory)
    else:
        change(directory / file)
    check_refused(directory, file, said)


def encoder(head=None, **changes):
    config = CONFIG.but(norm="layernorm", gated=True, activation="gelu", first_norm=False, qk_norm=False, **changes)
    config = config.but(norm_parameters="weight")
    return Encoder(config, head(config) if head else None)


INEXPRESSIBLE = {
    "positions": (Decoder(CONFIG.but(positions="alibi")), "nanochat would change position"),
    "window": (Decoder(CONFIG.but(window=3)), "nanochat would change window"),
    "biases": (Decoder(CONFIG.but(bias=("qkv",))), "nanochat would change bias"),
    "windows of two sizes": (encoder(window=(3, 5)), "modernbert would change window"),
    "softcap": (encoder(logit_softcap=3.0), "modernbert would change logit_softcap"),
    "pooling": (encoder(lambda c: ClassificationHead(c, 3, pooling="last", norm=True)), "classifier_pooling is 'last'"),
    "no norm": (encoder(lambda c: ClassificationHead(c, 3)), "has dense.weight, norm.weight"),
    "head": (encoder(lambda c: Pooler(c)), "modernbert: it has no Pooler"),
    "wiring": (EncoderDecoder(CONFIG), "t5 would change"),
}  # fmt: skip


@pytest.mark.parametrize("problem", INEXPRESSIBLE)
def test_a_model_that_no_family_expresses_is_not_written(problem, tmp_path):
    model, said = INEXPRESSIBLE[problem]
    with pytest.raises(ValueError) as caught:
        save_model(model, tmp_path / "new")
    assert str(caught.value).startswith("no Hugging Face family can express this model: ")
    assert said in str(caught.value) and not (tmp_path / "new").exists()


def test_the_order_of_biases_and_a_stored_copy_of_a_tied_weight_do_not_matter(directory, tmp_path):
    reweighed(lambda w: w.update({HEAD: w[TABLE].clone()}))(directory)
    assert load_model(directory).head.matrix.weight is not None
    save_model(encoder(bias=("head", "ff")), tmp_path / "new")
    saved = read_json(tmp_path / "new" / "config.json")
    assert saved["decoder_bias"] and saved["mlp_bias"] and not saved["attention_bias"]
    assert set(load_model(tmp_path / "new").config.bias) == {"head", "ff"}


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_files_have_the_mode_the_user_asked_for_and_the_entries(umask, tmp_path):
    before = os.umask(umask)
    try:
        save_model(Decoder(CONFIG), tmp_path, eos_token_id=7)
    finally:
        os.umask(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o666 & ~umask}
    assert read_json(tmp_path / "config.json")["eos_token_id"] == 7


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file.json"
    write_json(path, {"name": "é"})

    def fail(beside):
        beside.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(path, fail)
    with pytest.raises(ValueError):
        write_json(path, float("nan"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.json"]
    assert json.loads(path.read_text(encoding="utf-8")) == {"name": "é"}


def test_a_model_whose_answer_is_no_number_is_compared_too(tmp_path):
    model = Decoder(TransformerConfig(31, d_model=8, n_heads=2, n_layers=1, max_length=16))
    with torch.no_grad():
        model.stack.blocks[0].attention.layer.qkv.weight.fill_(3e38)
    save_model(model, tmp_path)
    assert not load_model(tmp_path)(torch.ones(1, 3, dtype=torch.int64)).isfinite().all()
