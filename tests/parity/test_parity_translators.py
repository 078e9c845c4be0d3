"""Encoder-decoders of transformers: what only one family has."""

import json

import kit
import pytest
import torch
import transformers
from families import model
from kit import BOUND, V, check_beams, check_reads, difference, edit_config, inputs, redraw
from safetensors.torch import load_file, save_file
from transformers.models.t5.modeling_t5 import T5Attention

from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.models.config import Positions, TransformerConfig
from headway.models.transformer import EncoderDecoder
from headway.nn.positions import RelativeBias


def test_files_with_every_copy_and_files_without_a_bias(tmp_path):
    """Older files hold the shared table four times; a bare model's file has no bias, which is then zero."""
    other = model("bart")
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


def test_a_text_longer_than_the_length_trained_for(tmp_path):
    """Sinusoids have no end: both go on past the configured maximum, here 7 of 13 tokens."""
    ours = check_reads(model("m2m_100", max_position_embeddings=7), tmp_path)
    assert ours.config.max_length == 7


def test_ids_that_the_configuration_leaves_out(tmp_path):
    """What transformers assumes is assumed here, and written out when the model is saved."""
    model("m2m_100").save_pretrained(tmp_path)
    edit_config(tmp_path, pad_token_id=None)
    ours = load_model(tmp_path)
    assert ours.config.position.start == 2


@pytest.mark.parametrize("length_penalty", [1.0, 0.6])
def test_beams(length_penalty, tmp_path):
    other = model("marian")
    other.final_logits_bias[0, 0] += 7.0  # else nothing ends
    assert len(check_beams(other, tmp_path, length_penalty=length_penalty)) > 1, "too monotonous to show anything"


@pytest.mark.parametrize("n_best", [1, 4])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8])
def test_beams_at_a_tight_limit(limit, n_best, tmp_path):
    other = model("marian")
    other.final_logits_bias[0, 0] += 5.5
    assert limit in check_beams(other, tmp_path, new_tokens=limit, n_best=n_best), "nothing was cut off"


def test_a_long_text(tmp_path):
    other = model("marian", max_position_embeddings=509)
    ours = check_reads(other, tmp_path, ("none",))
    (source, _), (target, _) = inputs(length=503), inputs(length=499, seed=2)
    with torch.no_grad():
        assert (ours(source, target) - other(source, decoder_input_ids=target).logits).abs().max() <= BOUND


def test_stored_tables_of_positions_are_not_needed(tmp_path):
    other = model("marian")
    check_reads(other, tmp_path, ("none",))
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_positions.weight"] = torch.zeros(29, 42)
    save_file(weights, path)
    assert difference(load_model(tmp_path), other) <= BOUND


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (6, 11), (64, 257), (46, 164), (50, 215), (16, 289)])
def test_every_distance_has_their_bucket(causal, buckets, reach):
    ahead = torch.arange(-1009, 1010)
    found = RelativeBias(1, buckets, reach, causal=causal).bucket(ahead)
    assert torch.equal(found, T5Attention._relative_position_bucket(ahead, not causal, buckets, reach))


def test_the_head_stays_scaled_after_training(tmp_path):
    """A step of training changes both, the table and the norm that holds the scale; they still mean the same there."""
    other = model("t5")
    other.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    (source, mask), (target, _) = inputs("right"), inputs(length=11, seed=2)
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.01)
    logits = ours(source, target, mask)[:, :-1]
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten()).backward()
    optimizer.step()
    save_model(ours, tmp_path)
    assert difference(ours, other) > 100 * BOUND
    assert difference(ours, type(other).from_pretrained(tmp_path).eval(), "right") <= BOUND


def test_a_published_configuration_of_1_1_says_untied(tmp_path):
    """transformers before 5 wrote no ``scale_decoder_outputs``, and that the head is not tied."""
    other = model("t5", "1.1")
    other.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    written = json.loads(path.read_text())
    del written["scale_decoder_outputs"]
    path.write_text(json.dumps({**written, "tie_word_embeddings": False, "n_positions": 101}))
    ours = load_model(tmp_path)
    assert difference(ours, other) <= BOUND
    assert ours.config.max_length == 101 and not ours.config.tied
    save_model(ours, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["tie_word_embeddings"] is False


def test_files_with_copies_and_old_tables(tmp_path):
    other = model("t5")
    other.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
        weights[name] = weights["shared.weight"].clone()
    weights["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.zeros(6, 5)
    save_file(weights, path)
    assert difference(load_model(tmp_path), other) <= BOUND
    weights["lm_head.weight"][0] += 1
    save_file(weights, path)
    with pytest.raises(InputError, match=r"lm_head.weight differs from the embedding"):
        load_model(tmp_path)


def test_an_encoder_is_read_from_a_whole_model(tmp_path):
    other = model("t5")
    other.save_pretrained(tmp_path)
    kit.edit_config(tmp_path, architectures=["T5EncoderModel"])
    (ids, mask), ours = inputs("left"), load_model(tmp_path)
    with torch.no_grad():
        expected = other.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        assert (ours(ids, mask) - expected)[mask].abs().max() <= BOUND


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_configured_here_is_read_there(tied, tmp_path):
    config = TransformerConfig(
        V, d_model=23, n_heads=5, d_head=7, n_layers=2, d_ff=17, norm_eps=1e-6, activation="gelu_tanh", tied=tied,
        positions=Positions("relative", buckets=8, max_distance=19),
    )  # fmt: skip
    ours = redraw(EncoderDecoder(config, config.but(n_layers=3)))
    ours.decoder.norm.weight.data *= 2
    save_model(ours, tmp_path)
    other = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    assert difference(ours, other, "right") <= BOUND
    assert other.generate(inputs()[0], max_new_tokens=3).shape == (3, 4)
