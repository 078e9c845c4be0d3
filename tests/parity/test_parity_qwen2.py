"""Qwen2: our answers are those of transformers, in both directions."""

import json

import pytest
import torch
from kit import BOUND, C, V, check_decode, check_mutation, check_reads, check_writes, difference, edit_config, theirs

from headway.hub.directory import load_model, save_model
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder

SIZES = {
    "vocab_size": V, "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 5, "num_attention_heads": 3,
    "num_key_value_heads": 3, "max_position_embeddings": 29, "num_labels": C,
}  # fmt: skip
GROUPED = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
NEAR = {"use_sliding_window": True, "sliding_window": 5}
YARN = {"rope_type": "yarn", "rope_theta": 101.0, "factor": 4.0, "original_max_position_embeddings": 11}
CASES = {
    "vectors": ("Qwen2Model", {}),
    "tokens": ("Qwen2ForCausalLM", {}),
    "tokens, tied": ("Qwen2ForCausalLM", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "tokens, grouped": ("Qwen2ForCausalLM", GROUPED),
    "tokens, yarn": ("Qwen2ForCausalLM", {"rope_parameters": YARN}),
    "tokens, last layers near": ("Qwen2ForCausalLM", {**NEAR, "max_window_layers": 2}),
    "tokens, all layers near": ("Qwen2ForCausalLM", {**GROUPED, **NEAR, "max_window_layers": 0, "sliding_window": 2}),
    "tokens, some layers near": (
        "Qwen2ForCausalLM",
        {**NEAR, "layer_types": ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"]},
    ),
    "tokens, a window not used": ("Qwen2ForCausalLM", {"sliding_window": 5, "max_window_layers": 2}),
    "classes": ("Qwen2ForSequenceClassification", {"pad_token_id": 0}),
}
CAUSAL = [name for name, (kind, _) in CASES.items() if "CausalLM" in kind]
MUTATIONS = {
    "ε": ("tokens", {"rms_norm_eps": 1e-2}),
    "activation": ("tokens", {"hidden_act": "relu"}),
    "rotary base": ("tokens", {"rope_parameters": {"rope_type": "default", "rope_theta": 9000.0}}),
    "window": ("tokens, some layers near", {"sliding_window": 6}),
    "which layers": ("tokens, last layers near", {"layer_types": None, "max_window_layers": 3}),
    "no window": ("tokens, all layers near", {"use_sliding_window": False, "layer_types": None}),
    "size": ("tokens, yarn", {"rope_parameters": {**YARN, "attention_factor": 1.1}}),
}


def model(name):
    kind, changes = CASES[name]
    return theirs(kind, {**SIZES, **changes}, std=0.4 if name == "vectors" else 0.3)


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    check_reads(model(name), tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    check_writes(model(name), tmp_path)


@pytest.mark.parametrize("name", CAUSAL)
def test_cached_greedy_ids(name, tmp_path):
    check_decode(model(name), tmp_path)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    name, wrong = MUTATIONS[mutation]
    check_mutation(model(name), tmp_path, **wrong)


@pytest.mark.parametrize("part", [slice(0, 42), slice(42, 84), slice(84, None)], ids=["queries", "keys", "values"])
def test_every_bias_counts(part, tmp_path):
    """All but the keys' at once: a bias on a key adds the same to every score of a query, but that it is turned."""
    other = model("tokens")
    ours = check_reads(other, tmp_path, ("none",))
    ours.stack.blocks[0].attention.layer.qkv.bias.data[part] = 0.0
    assert difference(ours, other) > BOUND


def test_the_older_form_of_a_configuration_reads_the_same(tmp_path):
    """There were no lists of layers: the window began with a layer, and the base stood by itself."""
    other = model("tokens, last layers near")
    new = check_reads(other, tmp_path, ("none",)).config
    edit_config(tmp_path, layer_types=None, rope_parameters=None, rope_theta=10000.0)
    assert load_model(tmp_path).config == new
    assert [new.layer_window(layer) for layer in range(5)] == [None, None, 5, 5, 5]


@pytest.mark.parametrize("windows", [None, (None, 5, None, 5, None), (3, 3, 3, 3, 3)])
def test_a_model_configured_here_is_read_there(windows, tmp_path):
    """Biases on queries, keys and values alone make it Qwen2, and nothing else does."""
    sizes = {"d_model": 42, "n_heads": 3, "n_layers": 5, "d_ff": 17, "max_length": 29}
    save_model(Decoder(TransformerConfig(V, **sizes, bias=("qkv",), window=windows)), tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["model_type"] == "qwen2" and written["use_sliding_window"] == (windows is not None)
    again = load_model(tmp_path).config
    assert [again.layer_window(layer) for layer in range(5)] == list(windows or [None] * 5)


def test_windows_that_it_cannot_say_are_not_written(tmp_path):
    config = TransformerConfig(V, d_model=42, n_heads=3, n_layers=3, bias=("qkv",), window=(None, 3, 5))
    with pytest.raises(ValueError, match="qwen2 would change window"):
        save_model(Decoder(config), tmp_path)


REFUSED = {
    "no window": ({"layer_types": ["sliding_attention"] * 5}, "use_sliding_window is not true"),
    "a kind of layer": (
        {"layer_types": ["chunked_attention"] * 5},
        "layer_types has chunked_attention, which is not supported",
    ),
    "not a list": ({"layer_types": "full_attention"}, "layer_types is 'full_attention', expected list"),
    "fewer layers": ({**NEAR, "layer_types": ["sliding_attention"] * 4}, "one for each of 5 layers"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_we_lack_is_refused(what, tmp_path):
    changes, said = REFUSED[what]
    model("tokens").save_pretrained(tmp_path)
    edit_config(tmp_path, **changes)
    with pytest.raises(ValueError, match=said):
        load_model(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_files_in_half_precision_are_read_as_float32(dtype, tmp_path):
    other = model("tokens").to(dtype)
    other.save_pretrained(tmp_path)
    assert difference(load_model(tmp_path), type(other).from_pretrained(tmp_path, dtype=torch.float32).eval()) <= BOUND
