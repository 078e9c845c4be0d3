"""Decoders of transformers: what only one family has."""

import json
import math

import pytest
import torch
import transformers
from families import FAMILIES, ROPE, model, scaled
from kit import BOUND, C, V, check_reads, check_writes, difference, edit_config, inputs, theirs
from safetensors.torch import load_file, save_file

from headway.generation.decode import decode
from headway.generation.sampling import Sampling
from headway.hub.directory import load_model, save_model
from headway.hub.families.entries import read_rope
from headway.models.config import Positions, RopeScaling, TransformerConfig
from headway.models.heads import ClassificationHead, PoolingHead
from headway.models.transformer import Decoder

LLAMA = FAMILIES["llama"].sizes


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "GPT2ForSequenceClassification"])
def test_a_file_as_it_was_first_published(kind, tmp_path):
    """Without the prefix, with causal masks among the weights, and the older keys beside those of today."""
    other = theirs(kind, {**FAMILIES["gpt2"].sizes, "pad_token_id": 0})
    other.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    masks = {f"h.{i}.attn.{name}": torch.ones(1, 1, 29, 29) for i in range(3) for name in ("bias", "masked_bias")}
    bare = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}
    save_file({**bare, **masks}, tmp_path / "model.safetensors")
    edit_config(tmp_path, n_ctx=29, summary_type="cls_index", task_specific_params={"text-generation": {}})
    assert difference(load_model(tmp_path), other) <= BOUND


def test_a_stored_copy_of_the_tied_matrix_is_accepted(tmp_path):
    other = model("gpt2", "tokens")
    other.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["lm_head.weight"] = weights["transformer.wte.weight"].clone()
    save_file(weights, tmp_path / "model.safetensors")
    assert difference(load_model(tmp_path), other) <= BOUND


def test_learned_positions_end_where_theirs_do(tmp_path):
    ours = check_reads(model("gpt2", "tokens"), tmp_path, ("none",))
    assert ours(torch.zeros(1, 29).long()).isfinite().all()
    with pytest.raises(ValueError, match="30 tokens, but this model has learned positions for 29"):
        ours(torch.zeros(1, 30).long())


def test_another_scale_of_the_scores_is_saved_as_the_usual_one(tmp_path):
    model("gpt2", "tokens, scores by layer alone").save_pretrained(tmp_path / "theirs")
    save_model(load_model(tmp_path / "theirs"), tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert "scale_attn_weights" not in written and "scale_attn_by_inverse_layer_idx" not in written
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "ours").eval()
    assert difference(load_model(tmp_path / "theirs"), again) <= BOUND


CONFIG = TransformerConfig(
    V, d_model=42, n_heads=3, n_layers=2, d_ff=17, max_length=29, positions="learned", norm="layernorm",
    norm_parameters="both", activation="gelu_tanh", gated=False, bias=("qkv", "out", "ff"),
)  # fmt: skip
HEADS = {
    "classes": (lambda c: ClassificationHead(c, C, pooling="last", dense=False, out_bias=False), None),
    "the first token": (
        lambda c: ClassificationHead(c, C, pooling="first", dense=False, out_bias=False),
        "pooling last, not first",
    ),
    "a bias": (lambda c: ClassificationHead(c, C, pooling="last", dense=False), "out.weight, not out.weight, out.bias"),
    "a dense layer": (
        lambda c: ClassificationHead(c, C, pooling="last", out_bias=False),
        "out.weight, not dense.weight, out.weight",
    ),
    "pooling": (lambda c: PoolingHead(), "it has no PoolingHead"),
}


@pytest.mark.parametrize("head", HEADS)
def test_a_model_configured_here(head, tmp_path):
    make, refusal = HEADS[head]
    ours = Decoder(CONFIG, make(CONFIG))
    if refusal is not None:
        with pytest.raises(ValueError, match=f"gpt2: .*{refusal}"):
            save_model(ours, tmp_path)
        return
    save_model(ours, tmp_path)
    again = load_model(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), again.parameters(), strict=True))


def dynamic(original):
    """A new model each time, for theirs turns a text as it turned a longer one before it."""
    return theirs("LlamaForCausalLM", {**LLAMA, **scaled("dynamic"), "max_position_embeddings": original})


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
    other = theirs("LlamaForCausalLM", {**LLAMA, **scaled(name)})
    new = check_reads(other, tmp_path, ("none",)).config
    older = {key.replace("rope_type", "type"): value for key, value in ROPE[name].items()}
    edit_config(tmp_path, rope_parameters=None, rope_theta=101.0, rope_scaling=older)
    assert load_model(tmp_path).config == new
    assert new.position.base == 101.0 and new.position.scaling.kind == name
    edit_config(tmp_path, rope_scaling=None)
    assert load_model(tmp_path).config.position == Positions(base=101.0)


def test_what_is_left_out_is_what_transformers_assumes(tmp_path):
    """Keys as the first files had them, before there were grouped queries, biases and widths of heads."""
    other = model("llama", "tokens")
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
    other = model("llama", "tokens")
    other.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    tables = {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": torch.ones(7) for layer in range(3)}
    save_file({**weights, **tables, "model.rotary_emb.inv_freq": torch.ones(7)}, tmp_path / "model.safetensors")
    assert difference(load_model(tmp_path), other) <= BOUND


@pytest.mark.parametrize("name", ["tokens", "mistral, far", "vectors", "classes"])
def test_a_model_is_saved_as_the_family_it_came_from(name, tmp_path):
    """Mistral without a window is Llama, but was not called so."""
    other = model("llama", name)
    other.save_pretrained(tmp_path / "theirs")
    save_model(load_model(tmp_path / "theirs"), tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert (written["model_type"], written["architectures"]) == (other.config.model_type, [type(other).__name__])


def test_special_tokens_are_kept(tmp_path):
    """Where a file leaves them out, transformers assumes some; ours, saved, says them."""
    theirs("LlamaForCausalLM", {**LLAMA, "eos_token_id": [3, 5]}).save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in written.items() if key != "bos_token_id"}))
    save_model(load_model(tmp_path / "theirs"), tmp_path / "ours")
    config = transformers.LlamaConfig.from_pretrained(tmp_path / "ours")
    assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (1, [3, 5], None)


def test_the_older_keys_that_we_write_are_those_of_today(tmp_path):
    """Programs that know ``rope_theta`` and ``rope_scaling`` alone read the same as transformers does."""
    model("llama", "llama3").save_pretrained(tmp_path / "theirs")
    save_model(load_model(tmp_path / "theirs"), tmp_path / "ours")
    path = tmp_path / "ours" / "config.json"
    written = json.loads(path.read_text())
    today = transformers.LlamaConfig.from_pretrained(tmp_path / "ours").rope_parameters
    path.write_text(json.dumps({key: value for key, value in written.items() if key != "rope_parameters"}))
    assert transformers.LlamaConfig.from_pretrained(tmp_path / "ours").rope_parameters == today


def test_the_older_form_of_a_configuration_reads_the_same_qwen2(tmp_path):
    """There were no lists of layers: the window began with a layer, and the base stood by itself."""
    other = model("qwen2", "tokens, last layers near")
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


def test_the_norms_have_weights_over_the_width_of_a_head(tmp_path):
    ours = check_reads(model("qwen3", "tokens"), tmp_path, ("none",))
    assert ours.stack.blocks[0].attention.layer.q_norm.weight.shape == (10,)


def test_the_older_form_of_a_configuration_reads_the_same_qwen3(tmp_path):
    new = check_reads(model("qwen3", "tokens, last layers near"), tmp_path, ("none",)).config
    edit_config(tmp_path, layer_types=None, rope_parameters=None, rope_theta=10000.0, rope_scaling=None)
    assert load_model(tmp_path).config == new
    assert [new.layer_window(layer) for layer in range(3)] == [None, 5, 5]
