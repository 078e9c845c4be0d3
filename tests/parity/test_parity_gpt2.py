"""GPT-2: our answers are those of transformers, in both directions."""

import json

import pytest
import torch
import transformers
from kit import BOUND, C, V, check_decode, check_mutation, check_reads, check_writes, difference, edit_config, theirs
from safetensors.torch import load_file, save_file

from headway.hub.directory import load_model, save_model
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, PoolingHead
from headway.models.transformer import Decoder

NO_IDS = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
SIZES = {
    "vocab_size": V, "n_embd": 42, "n_inner": 17, "n_layer": 3, "n_head": 3, "n_positions": 29, "num_labels": C,
    **NO_IDS,
}  # fmt: skip
CASES = {
    "vectors": ("GPT2Model", {}),
    "tokens": ("GPT2LMHeadModel", {}),
    "tokens, untied": ("GPT2LMHeadModel", {"tie_word_embeddings": False, "layer_norm_epsilon": 1e-2}),
    "tokens, four times as wide": ("GPT2LMHeadModel", {"n_inner": None, "activation_function": "relu"}),
    "tokens, scores by layer": ("GPT2LMHeadModel", {"scale_attn_by_inverse_layer_idx": True}),
    "tokens, scores as they are": ("GPT2LMHeadModel", {"scale_attn_weights": False}),
    "tokens, scores by layer alone": (
        "GPT2LMHeadModel",
        {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
    ),
    "classes": ("GPT2ForSequenceClassification", {"pad_token_id": 0}),
}
CAUSAL = [name for name, (kind, _) in CASES.items() if "LMHead" in kind]
MUTATIONS = {
    "ε": ("tokens", {"layer_norm_epsilon": 1e-2}),
    "activation": ("tokens", {"activation_function": "gelu"}),
    "scores by layer": ("tokens, scores by layer", {"scale_attn_by_inverse_layer_idx": False}),
    "scores by width": ("tokens, scores as they are", {"scale_attn_weights": True}),
}
SIDES = ("none", "right")
"""Their learned positions count places, ours tokens: with padding on the left only ours is independent of it."""


def model(name):
    kind, changes = CASES[name]
    return theirs(kind, {**SIZES, **changes}, std=0.5 if name == "vectors" else 0.3)


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    check_reads(model(name), tmp_path, SIDES)


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    check_writes(model(name), tmp_path, SIDES)


@pytest.mark.parametrize("name", CAUSAL)
def test_cached_greedy_ids(name, tmp_path):
    check_decode(model(name), tmp_path)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    name, wrong = MUTATIONS[mutation]
    check_mutation(model(name), tmp_path, **wrong)


def post_norm(ours):
    for block in ours.stack.blocks:
        block.attention.pre = block.feedforward.pre = False


def positions_from_one(ours):
    table = ours.stack.embedding.learned.table.weight
    table.data = table.data.roll(-1, dims=0)


def matrices_as_they_are_stored(ours):
    for block in ours.stack.blocks:
        block.attention.layer.out.weight.data = block.attention.layer.out.weight.data.T.contiguous()


def queries_and_keys_exchanged(ours):
    for block in ours.stack.blocks:
        weight = block.attention.layer.qkv.weight
        weight.data[:84] = weight.data[:84].roll(42, dims=0)


WRONG = [post_norm, positions_from_one, matrices_as_they_are_stored, queries_and_keys_exchanged]


@pytest.mark.parametrize("mutate", WRONG)
def test_a_wrong_wiring_shows(mutate, tmp_path):
    other = model("tokens")
    ours = check_reads(other, tmp_path, ("none",))
    mutate(ours)
    assert difference(ours, other) > BOUND


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "GPT2ForSequenceClassification"])
def test_a_file_as_it_was_first_published(kind, tmp_path):
    """Without the prefix, with causal masks among the weights, and the older keys beside those of today."""
    other = theirs(kind, {**SIZES, "pad_token_id": 0})
    other.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    masks = {f"h.{i}.attn.{name}": torch.ones(1, 1, 29, 29) for i in range(3) for name in ("bias", "masked_bias")}
    bare = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}
    save_file({**bare, **masks}, tmp_path / "model.safetensors")
    edit_config(tmp_path, n_ctx=29, summary_type="cls_index", task_specific_params={"text-generation": {}})
    assert difference(load_model(tmp_path), other) <= BOUND


def test_a_stored_copy_of_the_tied_matrix_is_accepted(tmp_path):
    other = model("tokens")
    other.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["lm_head.weight"] = weights["transformer.wte.weight"].clone()
    save_file(weights, tmp_path / "model.safetensors")
    assert difference(load_model(tmp_path), other) <= BOUND


def test_learned_positions_end_where_theirs_do(tmp_path):
    ours = check_reads(model("tokens"), tmp_path, ("none",))
    assert ours(torch.zeros(1, 29).long()).isfinite().all()
    with pytest.raises(ValueError, match="30 tokens, but this model has learned positions for 29"):
        ours(torch.zeros(1, 30).long())


def test_another_scale_of_the_scores_is_saved_as_the_usual_one(tmp_path):
    model("tokens, scores by layer alone").save_pretrained(tmp_path / "theirs")
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


def test_cross_attention_is_refused(tmp_path):
    model("tokens").save_pretrained(tmp_path)
    edit_config(tmp_path, add_cross_attention=True)
    with pytest.raises(ValueError, match="add_cross_attention True is not supported"):
        load_model(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_files_in_half_precision_are_read_as_float32(dtype, tmp_path):
    other = model("tokens").to(dtype)
    other.save_pretrained(tmp_path)
    assert difference(load_model(tmp_path), type(other).from_pretrained(tmp_path, dtype=torch.float32).eval()) <= BOUND
