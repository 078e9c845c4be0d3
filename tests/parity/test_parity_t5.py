"""T5, 1.0 and 1.1: our answers are those of transformers, in both directions."""

import json

import kit
import pytest
import torch
import transformers
from kit import BOUND, V, check_mutation, check_reads, difference, inputs, redraw
from safetensors.torch import load_file, save_file
from transformers.models.t5.modeling_t5 import T5Attention

from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.models.config import Positions, TransformerConfig
from headway.models.transformer import EncoderDecoder
from headway.nn.positions import RelativeBias

SIZES = {
    "vocab_size": V, "d_model": 23, "d_kv": 7, "d_ff": 17, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 5,
    "relative_attention_num_buckets": 6, "relative_attention_max_distance": 11, "decoder_start_token_id": 0,
}  # fmt: skip
NEWER = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
CASES = {
    "1.0": ("T5ForConditionalGeneration", {}),
    "1.1": ("T5ForConditionalGeneration", NEWER),
    "1.1, tied": ("T5ForConditionalGeneration", NEWER),
    "gated SiLU": ("T5ForConditionalGeneration", {"feed_forward_proj": "gated-silu", "layer_norm_epsilon": 1e-2}),
    "vectors": ("T5Model", {}),
    "encoder": ("T5EncoderModel", {"num_layers": 2}),
    "more blocks in the decoder": ("T5ForConditionalGeneration", {"num_decoder_layers": 5}),
}
MUTATIONS = {
    "ε": ("1.0", {"layer_norm_epsilon": 1e-3}),
    "activation": ("1.0", {"feed_forward_proj": "gelu", "dense_act_fn": "gelu"}),
    "gate": ("1.1", {"feed_forward_proj": "gated-silu", "dense_act_fn": "silu"}),
    "buckets' reach": ("1.0", {"relative_attention_max_distance": 7}),
    "no scale": ("1.0", {"scale_decoder_outputs": False}),
}


def model(name="1.0", **changes):
    kind, case = CASES[name]
    other = kit.theirs(kind, {**SIZES, **case, **changes})
    with torch.no_grad():
        if name == "1.1":  # a head of its own, as published; transformers makes one only where a file has it
            other.lm_head.weight = torch.nn.Parameter(other.lm_head.weight.clone())
            redraw(other.lm_head, seed=3)
            other.all_tied_weights_keys.pop("lm_head.weight")
        if kind == "T5EncoderModel":
            other.encoder.final_layer_norm.weight.mul_(2)
        if kind == "T5ForConditionalGeneration" and other.config.scale_decoder_outputs:
            other.decoder.final_layer_norm.weight.mul_(5)  # the tied head's logits are small
    return other


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    check_reads(model(name), tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    kit.check_writes(model(name), tmp_path, exact=False)


@pytest.mark.parametrize("name", ["1.0", "1.1"])  # their generate fails where the decoder has more blocks
def test_greedy_targets(name, tmp_path):
    kit.check_targets(model(name), tmp_path, decoder_start_token_id=0)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    name, wrong = MUTATIONS[mutation]
    check_mutation(model(name), tmp_path, **wrong)


def scaled_scores(ours):
    for block in ours.decoder.blocks:
        block.cross.layer.q.weight.data /= 7**0.5


def swapped_sides(ours):
    ours.encoder.relative.causal = True


def biases_apart(ours):
    ours.decoder.relative.table.weight.data = ours.encoder.relative.table.weight.data.clone()


def post_norm(ours):
    ours.encoder.blocks[0].feedforward.pre = False


@pytest.mark.parametrize("mutate", [scaled_scores, swapped_sides, biases_apart, post_norm])
def test_a_wrong_wiring_shows(mutate, tmp_path):
    other = model()
    ours = check_reads(other, tmp_path, ("none",))
    mutate(ours)
    assert difference(ours, other) > BOUND


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (6, 11), (64, 257), (46, 164), (50, 215), (16, 289)])
def test_every_distance_has_their_bucket(causal, buckets, reach):
    ahead = torch.arange(-1009, 1010)
    found = RelativeBias(1, buckets, reach, causal=causal).bucket(ahead)
    assert torch.equal(found, T5Attention._relative_position_bucket(ahead, not causal, buckets, reach))


def test_the_head_stays_scaled_after_training(tmp_path):
    """A step of training changes both, the table and the norm that holds the scale; they still mean the same there."""
    other = model()
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
    other = model("1.1")
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
    other = model()
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
    other = model()
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
