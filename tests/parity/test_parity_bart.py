"""BART: our answers are those of transformers, in both directions."""

import pytest
import torch
from kit import V, check_mutation, check_reads, check_targets, check_writes, difference, theirs
from safetensors.torch import load_file, save_file

from headway.errors import InputError
from headway.hub.directory import load_model
from headway.nn.positions import LearnedPositions

SIZES = {
    "vocab_size": V, "d_model": 42, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 7, "encoder_ffn_dim": 17, "decoder_ffn_dim": 19, "max_position_embeddings": 29,
}  # fmt: skip
KINDS = {"logits": "BartForConditionalGeneration", "vectors": "BartModel"}
CASES = {
    "logits": ("logits", {}),
    "scaled, ReLU": ("logits", {"scale_embedding": True, "activation_function": "relu"}),
    "vectors": ("vectors", {"encoder_layers": 3, "decoder_layers": 2}),
}
SIDES = ("none", "right")  # their positions count places, ours tokens: with padding on the left only ours mean the same
MUTATIONS = {
    "activation": {"activation_function": "gelu_new"},
    "scale": {"scale_embedding": True},
    "encoder's heads": {"encoder_attention_heads": 7},
    "decoder's heads": {"decoder_attention_heads": 3},
}


def model(name="logits", **changes):
    kind, case = CASES[name]
    return theirs(KINDS[kind], {**SIZES, **case, **changes})


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    check_reads(model(name), tmp_path, SIDES)


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    check_writes(model(name), tmp_path, SIDES)


@pytest.mark.parametrize(
    "settings", [{}, {"forced_bos_token_id": 5}, {"bad_words_ids": [[7], [8]], "forced_eos_token_id": None}]
)
def test_greedy_targets(settings, tmp_path):
    check_targets(model(), tmp_path, **settings)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    check_mutation(model(), tmp_path, **MUTATIONS[mutation])


def shift_positions(ours):
    for module in ours.modules():
        if isinstance(module, LearnedPositions):
            module.start = 1


def pre_norm(ours):
    ours.encoder.blocks[1].attention.pre = True


def no_embedding_norm(ours):
    ours.decoder.embedding.norm = torch.nn.Identity()


def no_bias(ours):
    ours.head.matrix.bias.data.zero_()


def other_epsilon(ours):
    ours.encoder.embedding.norm.eps = 1e-3


@pytest.mark.parametrize("mutate", [shift_positions, pre_norm, no_embedding_norm, no_bias, other_epsilon])
def test_a_wrong_wiring_shows(mutate, tmp_path):
    other = model()
    ours = check_reads(other, tmp_path, ("none",))
    mutate(ours)
    assert difference(ours, other) > 1e-4


def test_files_with_every_copy_and_files_without_a_bias(tmp_path):
    """Older files hold the shared table four times; a bare model's file has no bias, which is then zero."""
    other = model()
    other.final_logits_bias.zero_()
    check_reads(other, tmp_path, ("none",))
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    del weights["final_logits_bias"]
    for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"):
        weights[name] = weights["model.shared.weight"].clone()
    save_file(weights, path)
    assert difference(load_model(tmp_path), other) <= 1e-4
    save_file({name: tensor for name, tensor in weights.items() if name != "model.shared.weight"}, path)
    assert difference(load_model(tmp_path), other) <= 1e-4
    weights["model.decoder.embed_tokens.weight"][0] += 1
    save_file(weights, path)
    with pytest.raises(InputError, match=r"model.decoder.embed_tokens.weight differs from model.shared.weight"):
        load_model(tmp_path)
