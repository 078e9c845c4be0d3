"""M2M-100: our answers are those of transformers, in both directions."""

import pytest
import torch
from kit import BOUND, V, check_mutation, check_reads, check_targets, check_writes, difference, edit_config, theirs

from headway.hub.directory import load_model
from headway.nn.positions import SinusoidalEncoding

SIZES = {
    "vocab_size": V, "d_model": 42, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 7, "encoder_ffn_dim": 17, "decoder_ffn_dim": 19, "max_position_embeddings": 29,
}  # fmt: skip
CASES = {
    "logits": ("M2M100ForConditionalGeneration", {}),
    "odd width": ("M2M100ForConditionalGeneration", {"d_model": 21}),
    "SiLU, not scaled": (
        "M2M100ForConditionalGeneration",
        {"activation_function": "silu", "scale_embedding": False, "pad_token_id": 2},
    ),
    "vectors": ("M2M100Model", {}),
}
MUTATIONS = {
    "activation": {"activation_function": "silu"},
    "scale": {"scale_embedding": False},
    "first position": {"pad_token_id": 2},
    "encoder's heads": {"encoder_attention_heads": 7},
}


def model(name="logits", **changes):
    kind, case = CASES[name]
    return theirs(kind, {**SIZES, **case, **changes})


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    check_reads(model(name), tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    check_writes(model(name), tmp_path)


def test_a_text_longer_than_the_length_trained_for(tmp_path):
    """Sinusoids have no end: both go on past the configured maximum, here 7 of 13 tokens."""
    ours = check_reads(model(max_position_embeddings=7), tmp_path)
    assert ours.config.max_length == 7


@pytest.mark.parametrize("settings", [{}, {"forced_bos_token_id": 5}])
def test_greedy_targets(settings, tmp_path):
    check_targets(model(), tmp_path, **settings)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    check_mutation(model(), tmp_path, **MUTATIONS[mutation])


def other_sinusoids(order):
    def mutate(ours):
        ours.encoder.embedding.position = SinusoidalEncoding(ours.config.d_model, 2, order)

    return mutate


def post_norm(ours):
    ours.decoder.blocks[0].cross.pre = False


def no_final_norm(ours):
    ours.encoder.norm = torch.nn.Identity()


def other_epsilon(ours):
    ours.decoder.norm.eps = 0.03


WIRINGS = {
    "halves": other_sinusoids("halves"),
    "interleaved": other_sinusoids("interleaved"),
    "post-norm": post_norm,
    "no final norm": no_final_norm,
    "ε": other_epsilon,
}


@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_wrong_wiring_shows(wiring, tmp_path):
    other = model()
    ours = check_reads(other, tmp_path, ("none",))
    WIRINGS[wiring](ours)
    assert difference(ours, other) > BOUND


def test_ids_that_the_configuration_leaves_out(tmp_path):
    """What transformers assumes is assumed here, and written out when the model is saved."""
    model().save_pretrained(tmp_path)
    edit_config(tmp_path, pad_token_id=None)
    ours = load_model(tmp_path)
    assert ours.config.position.start == 2
