"""Marian: our answers are those of transformers, in both directions."""

import pytest
import torch
from kit import (
    BOUND,
    V,
    check_beams,
    check_mutation,
    check_reads,
    check_targets,
    check_writes,
    difference,
    inputs,
    theirs,
)
from safetensors.torch import load_file, save_file

from headway.hub.directory import load_model
from headway.nn.positions import SinusoidalEncoding

SIZES = {
    "vocab_size": V, "d_model": 42, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 7, "encoder_ffn_dim": 17, "decoder_ffn_dim": 19, "max_position_embeddings": 29,
    "pad_token_id": 2, "decoder_start_token_id": 2, "eos_token_id": 0, "activation_function": "swish",
    "scale_embedding": True,
}  # fmt: skip
APART = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 37}
CASES = {
    "logits": ("MarianMTModel", {}),
    "two vocabularies": ("MarianMTModel", APART),
    "three tables": ("MarianMTModel", {**APART, "decoder_vocab_size": V, "tie_word_embeddings": False}),
    "odd width, GELU": ("MarianMTModel", {"d_model": 21, "activation_function": "gelu", "scale_embedding": False}),
    "vectors": ("MarianModel", {}),
}
SIDES = ("none", "right")  # their positions count places, ours tokens: with padding on the left only ours mean the same
MUTATIONS = {
    "activation": {"activation_function": "gelu"},
    "scale": {"scale_embedding": False},
    "encoder's heads": {"encoder_attention_heads": 7},
}


def model(name="logits", **changes):
    kind, case = CASES[name]
    other = theirs(kind, {**SIZES, **case, **changes})
    for module in other.modules():  # a table that is computed, though it is a parameter there: not to be redrawn
        if hasattr(module, "create_weight"):
            module.weight.data.copy_(module.create_weight())
    return other


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    check_reads(model(name), tmp_path, SIDES)


@pytest.mark.parametrize("name", [name for name in CASES if name != "vectors"])  # MarianModel calls its tables missing
def test_our_model_there(name, tmp_path):
    check_writes(model(name), tmp_path, SIDES)


@pytest.mark.parametrize("name", ["logits", "two vocabularies"])
def test_greedy_targets(name, tmp_path):
    check_targets(model(name), tmp_path, bad_words_ids=[[2]])


@pytest.mark.parametrize("length_penalty", [1.0, 0.6])
def test_beams(length_penalty, tmp_path):
    other = model()
    other.final_logits_bias[0, SIZES["eos_token_id"]] += 7.0  # else nothing ends
    assert len(check_beams(other, tmp_path, length_penalty=length_penalty)) > 1, "too monotonous to show anything"


@pytest.mark.parametrize("n_best", [1, 4])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8])
def test_beams_at_a_tight_limit(limit, n_best, tmp_path):
    other = model()
    other.final_logits_bias[0, SIZES["eos_token_id"]] += 5.5
    assert limit in check_beams(other, tmp_path, new_tokens=limit, n_best=n_best), "nothing was cut off"


def test_a_long_text(tmp_path):
    other = model(max_position_embeddings=509)
    ours = check_reads(other, tmp_path, ("none",))
    (source, _), (target, _) = inputs(length=503), inputs(length=499, seed=2)
    with torch.no_grad():
        assert (ours(source, target) - other(source, decoder_input_ids=target).logits).abs().max() <= BOUND


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    check_mutation(model(), tmp_path, **MUTATIONS[mutation])


def other_positions(**numbers):
    def mutate(ours):
        ours.decoder.embedding.position = SinusoidalEncoding(ours.config.d_model, **{"order": "halves", **numbers})

    return mutate


def pre_norm(ours):
    ours.decoder.blocks[2].feedforward.pre = True


def no_bias(ours):
    ours.head.matrix.bias.data.zero_()


def other_epsilon(ours):
    ours.encoder.blocks[1].feedforward.norm.eps = 1e-3


WIRINGS = {
    "interleaved": other_positions(order="interleaved"),
    "tensor2tensor": other_positions(order="tensor2tensor"),
    "first position": other_positions(start=1),
    "pre-norm": pre_norm,
    "no bias": no_bias,
    "ε": other_epsilon,
}


@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_wrong_wiring_shows(wiring, tmp_path):
    other = model()
    ours = check_reads(other, tmp_path, ("none",))
    WIRINGS[wiring](ours)
    assert difference(ours, other) > BOUND


def test_stored_tables_of_positions_are_not_needed(tmp_path):
    other = model()
    check_reads(other, tmp_path, ("none",))
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_positions.weight"] = torch.zeros(29, 42)
    save_file(weights, path)
    assert difference(load_model(tmp_path), other) <= BOUND
