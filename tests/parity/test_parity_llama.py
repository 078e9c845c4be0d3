"""Llama and Mistral: our answers are those of transformers, in both directions."""

import json
import math

import pytest
import torch
import transformers
from kit import (
    BOUND,
    C,
    V,
    check_decode,
    check_mutation,
    check_reads,
    check_writes,
    difference,
    edit_config,
    inputs,
    theirs,
)  # fmt: skip
from safetensors.torch import load_file, save_file

from headway.generation.decode import decode
from headway.generation.sampling import Sampling
from headway.hub.directory import load_model, save_model
from headway.hub.families.entries import read_rope
from headway.models.config import Positions, RopeScaling

NO_IDS = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
SIZES = {
    "vocab_size": V, "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 3,
    "max_position_embeddings": 29, "num_labels": C, **NO_IDS,
}  # fmt: skip
GROUPED = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
ROPE = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0},
    "yarn": {
        "rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 7, "beta_fast": 1.5, "beta_slow": 0.1,
    },
    "yarn, mscale": {
        "rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 7, "mscale": 0.7, "mscale_all_dim": 0.3,
    },
    "yarn, exact": {
        "rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 23, "truncate": False,
        "attention_factor": 1.3,
    },
    "llama3": {
        "rope_type": "llama3", "factor": 5.0, "original_max_position_embeddings": 7, "low_freq_factor": 0.1,
        "high_freq_factor": 1.3,
    },
    "llama3, long": {
        "rope_type": "llama3", "factor": 5.0, "original_max_position_embeddings": 23, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}  # fmt: skip


def scaled(name, **changes):
    return {"rope_parameters": {**ROPE[name], "rope_theta": 101.0}, **changes}


CASES = {
    "vectors": ("LlamaModel", {}),
    "tokens": ("LlamaForCausalLM", {}),
    "tokens, tied": ("LlamaForCausalLM", {"tie_word_embeddings": True, "rms_norm_eps": 1e-2}),
    "tokens, grouped": ("LlamaForCausalLM", {**GROUPED, "hidden_act": "gelu"}),
    "tokens, every bias": ("LlamaForCausalLM", {**GROUPED, "attention_bias": True, "mlp_bias": True}),
    "tokens, attention's biases": ("LlamaForCausalLM", {"attention_bias": True}),
    "classes": ("LlamaForSequenceClassification", {**GROUPED, "pad_token_id": 0}),
    "mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 5}),
    "mistral, far": ("MistralModel", {"num_key_value_heads": 1, "sliding_window": None}),
    **{name: ("LlamaForCausalLM", scaled(name)) for name in ROPE if name != "dynamic"},
}  # fmt: skip
CAUSAL = [name for name, (kind, _) in CASES.items() if "CausalLM" in kind]
MUTATIONS = {
    "ε": ("tokens", {"rms_norm_eps": 1e-2}),
    "activation": ("tokens", {"hidden_act": "gelu"}),
    "rotary base": ("tokens", {"rope_parameters": {"rope_type": "default", "rope_theta": 9000.0}}),
    "window": ("mistral", {"sliding_window": 6}),
    "no window": ("mistral", {"sliding_window": None}),
    "factor": ("linear", scaled("linear", rope_parameters={**ROPE["linear"], "rope_theta": 101.0, "factor": 3.1})),
    "no scaling": ("llama3", {"rope_parameters": {"rope_type": "default", "rope_theta": 101.0}}),
    "original length": ("llama3", {"original_max_position_embeddings": 8}),
    "size": ("yarn", {"rope_parameters": {**ROPE["yarn"], "rope_theta": 101.0, "attention_factor": 1.0}}),
    "whole pairs": ("yarn, exact", {"rope_parameters": {**ROPE["yarn, exact"], "rope_theta": 101.0, "truncate": True}}),
}  # fmt: skip


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


def post_norm(block):
    block.attention.pre = block.feedforward.pre = False


def gate_and_up_exchanged(block):
    weight = block.feedforward.layer.up.weight
    weight.data = weight.data.roll(17, dims=0)


def pairs_side_by_side(block):
    """The other way to pair entries, x[2i] with x[2i + 1], as Llama's own files have it."""
    weight = block.attention.layer.qkv.weight
    weight.data[:84] = weight.data[:84].unflatten(0, (-1, 2, 7)).transpose(1, 2).flatten(0, 2)


@pytest.mark.parametrize("mutate", [post_norm, gate_and_up_exchanged, pairs_side_by_side])
def test_a_wrong_wiring_shows(mutate, tmp_path):
    other = model("tokens")
    ours = check_reads(other, tmp_path, ("none",))
    for block in ours.stack.blocks:
        mutate(block)
    assert difference(ours, other) > BOUND


def dynamic(original):
    """A new model each time, for theirs turns a text as it turned a longer one before it."""
    return theirs("LlamaForCausalLM", {**SIZES, **scaled("dynamic"), "max_position_embeddings": original})


@pytest.mark.parametrize("original", [7, 11, 29])
@torch.no_grad()
def test_dynamic_scaling_depends_on_the_length_of_each_text(original, tmp_path):
    check_writes(dynamic(original), tmp_path, ("none",))
    ours = check_reads(dynamic(original), tmp_path, ("none",))
    ids, mask = inputs("right")
    for row in range(3):
        alone = ids[row : row + 1, : mask[row].sum()]
        assert (ours(ids, mask)[row, mask[row]] - dynamic(original)(alone).logits[0]).abs().max() <= BOUND
    edit_config(tmp_path, rope_parameters={**scaled("dynamic")["rope_parameters"], "factor": 3.1})
    assert (difference(load_model(tmp_path), dynamic(original)) > BOUND) == (original < 13)


@pytest.mark.parametrize("original", [7, 17, 29])
@torch.no_grad()
def test_dynamic_scaling_with_a_cache(original, tmp_path):
    """Cached ids are theirs at any length; cached logits are the uncached ones up to the original length alone."""
    dynamic(original).save_pretrained(tmp_path)
    ours, (ids, mask) = load_model(tmp_path), inputs("left")
    prompts = [ids[row][mask[row]].tolist() for row in range(3)]
    steps = list(decode(ours, prompts, Sampling(temperature=0), max_tokens=11, context=99))
    for row, prompt in enumerate(prompts):
        expected = dynamic(original).generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)).long(), max_new_tokens=11, do_sample=False
        )
        assert prompt + [step[row] for step in steps] == expected[0].tolist()
    state = ours.new_state()
    cached = torch.cat([ours(piece, state=state) for piece in ids.split([5, 1, 7], dim=1)], dim=1)
    assert ((cached - ours(ids)).abs().max() <= 1e-5) == (original >= 13)


@pytest.mark.parametrize("name", ["linear", "dynamic", "yarn", "llama3"])
def test_the_older_form_of_a_configuration_reads_the_same(name, tmp_path):
    other = theirs("LlamaForCausalLM", {**SIZES, **scaled(name)})
    new = check_reads(other, tmp_path, ("none",)).config
    older = {key.replace("rope_type", "type"): value for key, value in ROPE[name].items()}
    edit_config(tmp_path, rope_parameters=None, rope_theta=101.0, rope_scaling=older)
    assert load_model(tmp_path).config == new
    assert new.position.base == 101.0 and new.position.scaling.kind == name
    edit_config(tmp_path, rope_scaling=None)
    assert load_model(tmp_path).config.position == Positions(base=101.0)


def test_what_is_left_out_is_what_transformers_assumes(tmp_path):
    """Keys as the first files had them, before there were grouped queries, biases and widths of heads."""
    other = model("tokens")
    other.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    kept = ("model_type", "architectures", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
    written = json.loads(path.read_text())
    path.write_text(json.dumps({key: written[key] for key in (*kept, "num_attention_heads")}))
    config = load_model(tmp_path).config
    assert (config.max_length, config.norm_eps, config.kv_heads, config.tied) == (2048, 1e-6, 3, False)
    assert difference(load_model(tmp_path), other) <= BOUND


def test_yarn_takes_its_factor_from_the_lengths_where_none_is_given():
    said = {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 32}
    found = read_rope({"max_position_embeddings": 128, "rope_parameters": said}).scaling
    assert found == RopeScaling("yarn", 4.0, 32, size=0.1 * math.log(4) + 1)


def test_old_tables_in_a_file_are_passed_over(tmp_path):
    other = model("tokens")
    other.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    tables = {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": torch.ones(7) for layer in range(3)}
    save_file({**weights, **tables, "model.rotary_emb.inv_freq": torch.ones(7)}, tmp_path / "model.safetensors")
    assert difference(load_model(tmp_path), other) <= BOUND


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_files_in_half_precision_are_read_as_float32(dtype, tmp_path):
    model("tokens, grouped").to(dtype).save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float32}
    other = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    assert difference(ours, other) <= BOUND


@pytest.mark.parametrize("name", ["tokens", "mistral, far", "vectors", "classes"])
def test_a_model_is_saved_as_the_family_it_came_from(name, tmp_path):
    """Mistral without a window is Llama, but was not called so."""
    other = model(name)
    other.save_pretrained(tmp_path / "theirs")
    save_model(load_model(tmp_path / "theirs"), tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert (written["model_type"], written["architectures"]) == (other.config.model_type, [type(other).__name__])


def test_special_tokens_are_kept(tmp_path):
    """Where a file leaves them out, transformers assumes some; ours, saved, says them."""
    theirs("LlamaForCausalLM", {**SIZES, "eos_token_id": [3, 5]}).save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in written.items() if key != "bos_token_id"}))
    save_model(load_model(tmp_path / "theirs"), tmp_path / "ours")
    config = transformers.LlamaConfig.from_pretrained(tmp_path / "ours")
    assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (1, [3, 5], None)


REFUSED = {
    "another scaling": ({"rope_scaling": {"type": "longrope"}}, "rope_type 'longrope' is not supported"),
    "one for each kind": ({"rope_parameters": {"full_attention": {}}}, "only one set of values for all layers"),
    "a part of the head": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5 is not supported"),
    "no factor": ({"rope_scaling": {"type": "linear"}}, "factor is None, expected float"),
    "heads that do not fill": ({"num_attention_heads": 9, "head_dim": 10}, "hidden_size must be a multiple"),
    "order of bounds": (
        {"rope_scaling": {"type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0}},
        "fast is 1.0, but must be a number above slow = 4.0",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_we_lack_is_refused(what, tmp_path):
    changes, said = REFUSED[what]
    model("tokens").save_pretrained(tmp_path)
    edit_config(tmp_path, **changes)
    with pytest.raises(ValueError, match=said):
        load_model(tmp_path)


def test_the_older_keys_that_we_write_are_those_of_today(tmp_path):
    """Programs that know ``rope_theta`` and ``rope_scaling`` alone read the same as transformers does."""
    model("llama3").save_pretrained(tmp_path / "theirs")
    save_model(load_model(tmp_path / "theirs"), tmp_path / "ours")
    path = tmp_path / "ours" / "config.json"
    written = json.loads(path.read_text())
    today = transformers.LlamaConfig.from_pretrained(tmp_path / "ours").rope_parameters
    path.write_text(json.dumps({key: value for key, value in written.items() if key != "rope_parameters"}))
    assert transformers.LlamaConfig.from_pretrained(tmp_path / "ours").rope_parameters == today
