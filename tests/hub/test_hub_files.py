"""Directories that cannot be read or written: one line that names the file, and nothing half done."""

import json
import os
import stat

import pytest
import torch
from safetensors.torch import load_file, save_file

from headway.errors import InputError
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


def edit_weights(directory, change):
    weights = load_file(directory / "model.safetensors")
    change(weights)
    save_file(weights, directory / "model.safetensors")


def edit_config(**changes):
    def spoil(directory):
        path = directory / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return spoil


def weight(change):
    return lambda directory: edit_weights(directory, change)


Q = "model.layers.1.self_attn.q_proj.weight"
SPOILED = {
    "missing weight": (weight(lambda w: w.pop(Q)), "model.safetensors", f"missing {Q}"),
    "unknown weight": (weight(lambda w: w.update(extra=torch.ones(3))), "model.safetensors", "unknown extra"),
    "wrong shape": (
        weight(lambda w: w.update({"model.embed_tokens.weight": torch.ones(31, 7)})),
        "model.safetensors",
        "model.embed_tokens.weight has shape [31, 7], expected [31, 26]",
    ),
    "another shape in a stack": (
        weight(lambda w: w.update({Q: torch.ones(26, 7)})),
        "model.safetensors",
        "has shape [26, 7], expected [26, 26]",
    ),
    "a part too long": (
        weight(lambda w: w.update({Q: torch.ones(28, 26)})),
        "model.safetensors",
        "has shape [28, 26], expected [26, 26]",
    ),
    "tied, but not equal": (
        weight(lambda w: w.update({"lm_head.weight": torch.ones(31, 26)})),
        "model.safetensors",
        "lm_head.weight differs from the embedding",
    ),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), "model.safetensors", "no such file"),
    "weights cut short": (
        lambda d: (d / "model.safetensors").write_bytes((d / "model.safetensors").read_bytes()[:-7]),
        "model.safetensors",
        "cannot be read as safetensors",
    ),
    "weights are text": (lambda d: (d / "model.safetensors").write_text("hello"), "model.safetensors", "safetensors"),
    "weights are a folder": (
        lambda d: ((d / "model.safetensors").unlink(), (d / "model.safetensors").mkdir()), "model.safetensors", "read",
    ),
    "no configuration": (lambda d: (d / "config.json").unlink(), "config.json", "no such file"),
    "broken JSON": (lambda d: (d / "config.json").write_text('{"a": \n'), "config.json", "not JSON"),
    "deep JSON": (lambda d: (d / "config.json").write_text("[" * 100_000), "config.json", "at most 64"),
    "not UTF-8": (lambda d: (d / "config.json").write_bytes(b"\xff\xfe\x00"), "config.json", "not UTF-8"),
    "a list": (lambda d: (d / "config.json").write_text("[1]"), "config.json", "found a JSON list"),
    "unknown family": (edit_config(model_type="perceiver"), "config.json", "'perceiver' is not one of nanochat"),
    "no family": (edit_config(model_type=None), "config.json", "model_type None"),
    "unknown class": (edit_config(architectures=["LlamaModel"]), "config.json", "'LlamaModel' is not one of"),
    "classes are a number": (edit_config(architectures=3), "config.json", ""),
    "a word for a number": (edit_config(hidden_size="wide"), "config.json", "hidden_size is 'wide', expected int"),
    "no heads": (edit_config(num_attention_heads=0), "config.json", "n_heads is 0"),
    "unknown activation": (edit_config(hidden_act="swish2"), "config.json", "hidden_act is 'swish2', expected one of"),
    "rope of another kind": (
        edit_config(rope_scaling={"rope_type": "longrope"}), "config.json", "rope_type 'longrope' is not supported",
    ),
    "rope is a list": (edit_config(rope_parameters=[1]), "config.json", ""),
    "more layers than weights": (edit_config(num_hidden_layers=3), "model.safetensors", "missing model.layers.2"),
    "fewer layers than weights": (edit_config(num_hidden_layers=1), "model.safetensors", "unknown model.layers.1"),
}  # fmt: skip


@pytest.mark.parametrize("problem", SPOILED)
def test_a_directory_that_cannot_be_read(problem, directory):
    spoil, file, said = SPOILED[problem]
    spoil(directory)
    with pytest.raises(InputError) as caught:
        load_model(directory)
    message = str(caught.value)
    assert message.startswith(f"{directory / file}: ")
    assert said in message
    assert "\n" not in message


def test_a_stored_copy_of_a_tied_weight_is_accepted(directory):
    edit_weights(directory, lambda w: w.update({"lm_head.weight": w["model.embed_tokens.weight"].clone()}))
    assert load_model(directory).head.matrix.weight is not None


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
    "pooling": (
        encoder(lambda c: ClassificationHead(c, 3, pooling="last", norm=True)),
        "modernbert: classifier_pooling is 'last'",
    ),
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
    assert said in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_the_order_of_biases_does_not_matter(tmp_path):
    save_model(encoder(bias=("head", "ff")), tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["decoder_bias"] and saved["mlp_bias"] and not saved["attention_bias"]
    assert set(load_model(tmp_path).config.bias) == {"head", "ff"}


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_files_have_the_mode_the_user_asked_for(umask, tmp_path):
    before = os.umask(umask)
    try:
        save_model(Decoder(CONFIG), tmp_path)
    finally:
        os.umask(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o666 & ~umask}


def test_entries_are_written_into_the_configuration(tmp_path):
    save_model(Decoder(CONFIG), tmp_path, eos_token_id=7)
    assert json.loads((tmp_path / "config.json").read_text())["eos_token_id"] == 7


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
