"""Qwen3: our answers are those of transformers, in both directions."""

import pytest
import torch
from kit import BOUND, C, V, check_decode, check_mutation, check_reads, check_writes, difference, edit_config, theirs

from headway.hub.directory import load_model

SIZES = {
    "vocab_size": V, "hidden_size": 41, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 10, "max_position_embeddings": 29, "num_labels": C,
}  # fmt: skip
NEAR = {"use_sliding_window": True, "sliding_window": 5}
LINEAR = {"rope_type": "linear", "rope_theta": 101.0, "factor": 3.0}
CASES = {
    "vectors": ("Qwen3Model", {}),
    "tokens": ("Qwen3ForCausalLM", {}),
    "tokens, tied": ("Qwen3ForCausalLM", {"tie_word_embeddings": True, "rms_norm_eps": 1e-2}),
    "tokens, attention's biases": ("Qwen3ForCausalLM", {"attention_bias": True}),
    "tokens, linear": ("Qwen3ForCausalLM", {"rope_parameters": LINEAR, "num_key_value_heads": 1}),
    "tokens, as many keys": ("Qwen3ForCausalLM", {"num_key_value_heads": None, "hidden_act": "gelu"}),
    "tokens, last layers near": ("Qwen3ForCausalLM", {**NEAR, "max_window_layers": 1}),
    "tokens, some layers near": (
        "Qwen3ForCausalLM",
        {**NEAR, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
    "classes": ("Qwen3ForSequenceClassification", {"pad_token_id": 0}),
}
CAUSAL = [name for name, (kind, _) in CASES.items() if "CausalLM" in kind]
MUTATIONS = {
    "ε": ("tokens", {"rms_norm_eps": 1e-2}),
    "activation": ("tokens", {"hidden_act": "relu"}),
    "rotary base": ("tokens", {"rope_parameters": {"rope_type": "default", "rope_theta": 9000.0}}),
    "factor": ("tokens, linear", {"rope_parameters": {**LINEAR, "factor": 3.1}}),
    "window": ("tokens, last layers near", {"sliding_window": 6}),
    "which layers": ("tokens, some layers near", {"layer_types": ["sliding_attention"] * 3}),
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


def no_head_norms(attention):
    attention.q_norm = attention.k_norm = None


def one_norm_for_both(attention):
    attention.k_norm = attention.q_norm


def norms_without_weights(attention):
    attention.q_norm.weight.data.fill_(1.0)


@pytest.mark.parametrize("mutate", [no_head_norms, one_norm_for_both, norms_without_weights])
def test_a_wrong_wiring_shows(mutate, tmp_path):
    other = model("tokens")
    ours = check_reads(other, tmp_path, ("none",))
    for block in ours.stack.blocks:
        mutate(block.attention.layer)
    assert difference(ours, other) > BOUND


def test_the_norms_have_weights_over_the_width_of_a_head(tmp_path):
    ours = check_reads(model("tokens"), tmp_path, ("none",))
    assert ours.stack.blocks[0].attention.layer.q_norm.weight.shape == (10,)


def test_the_older_form_of_a_configuration_reads_the_same(tmp_path):
    new = check_reads(model("tokens, last layers near"), tmp_path, ("none",)).config
    edit_config(tmp_path, layer_types=None, rope_parameters=None, rope_theta=10000.0, rope_scaling=None)
    assert load_model(tmp_path).config == new
    assert [new.layer_window(layer) for layer in range(3)] == [None, 5, 5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_files_in_half_precision_are_read_as_float32(dtype, tmp_path):
    other = model("tokens").to(dtype)
    other.save_pretrained(tmp_path)
    assert difference(load_model(tmp_path), type(other).from_pretrained(tmp_path, dtype=torch.float32).eval()) <= BOUND
