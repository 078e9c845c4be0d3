"""RoBERTa and XLM-RoBERTa: our answers are those of transformers, in both directions, whatever side is padded."""

import json

import pytest
import torch
import transformers
from kit import BOUND, C, V, check_mutation, check_reads, check_writes, difference, edit_config, inputs, theirs
from safetensors.torch import load_file, save_file

from headway.errors import InputError
from headway.hub.directory import load_model, save_model

SIZES = {
    "vocab_size": V, "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 3,
    "max_position_embeddings": 31, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "num_labels": C,
}  # fmt: skip
CASES = {
    "vectors": ("RobertaModel", {}),
    "masked": ("RobertaForMaskedLM", {}),
    "masked, untied, ReLU": ("RobertaForMaskedLM", {"tie_word_embeddings": False, "hidden_act": "relu"}),
    "masked, padding is 0": ("RobertaForMaskedLM", {"pad_token_id": 0}),
    "classes": ("RobertaForSequenceClassification", {"layer_norm_eps": 1e-2}),
    "tokens": ("RobertaForTokenClassification", {}),
    "XLM tokens": ("XLMRobertaForTokenClassification", {}),
    "XLM vectors": ("XLMRobertaModel", {}),
    "XLM masked": ("XLMRobertaForMaskedLM", {}),
    "XLM classes": ("XLMRobertaForSequenceClassification", {}),
}
MUTATIONS = {
    "ε": ("masked", {"layer_norm_eps": 1e-3}),
    "activation": ("masked", {"hidden_act": "gelu_new"}),
    "positions one later": ("masked", {"pad_token_id": 2}),
    "positions one earlier": ("classes", {"pad_token_id": 0}),
}


def model(name):
    kind, changes = CASES[name]
    return theirs(kind, {**SIZES, **changes}, std=0.5 if "vectors" in name or "tokens" in name else 0.3)


def sides(name):
    """Their classifier takes the first place, padding or not."""
    return ("none", "right") if "classes" in name else ("none", "right", "left")


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    check_reads(model(name), tmp_path, sides(name))


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    check_writes(model(name), tmp_path, sides(name))


@torch.no_grad()
def test_the_pooled_vector(tmp_path):
    other = model("vectors")
    ours, (ids, mask) = check_reads(other, tmp_path, ("none",)), inputs("right", pad=1)
    answer = other(input_ids=ids, attention_mask=mask.long())
    assert (ours.pooled(ids, mask) - answer.pooler_output).abs().max() <= BOUND


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    name, wrong = MUTATIONS[mutation]
    check_mutation(model(name), tmp_path, **wrong)


def no_offset(ours):
    ours.stack.embedding.learned.start = 0


def no_segment(ours):
    ours.stack.embedding.segments = None


@torch.no_grad()
def test_the_masked_token_head_keeps_gelu_whatever_the_blocks_have(tmp_path):
    other = model("masked, untied, ReLU")
    ours = check_reads(other, tmp_path, ("none",))
    assert ours.head.activation == "gelu" and ours.config.activation == "relu"
    ours.head.activation = "relu"
    assert difference(ours, other) > BOUND


def gelu_for_tanh(ours):
    ours.head.activation = "gelu"


@pytest.mark.parametrize("mutate", [no_offset, no_segment, gelu_for_tanh])
def test_a_wrong_wiring_shows(mutate, tmp_path):
    other = model("classes")
    ours = check_reads(other, tmp_path, ("none",))
    mutate(ours)
    assert difference(ours, other) > BOUND


@torch.no_grad()
def test_the_longest_text_uses_the_last_row_and_one_more_token_is_refused(tmp_path):
    """31 rows: two before the first position, 29 for tokens."""
    other = model("vectors")
    ours = check_reads(other, tmp_path, ("none",))
    assert ours.config.max_length == 29
    ids, _ = inputs(length=29)
    assert (ours(ids) - other(input_ids=ids).last_hidden_state).abs().max() <= BOUND
    with pytest.raises(ValueError, match="30 tokens"):
        ours(inputs(length=30)[0])


@pytest.mark.parametrize(("name", "family"), [("masked", "roberta"), ("XLM masked", "xlm-roberta")])
def test_each_is_written_under_the_name_it_came_with(name, family, tmp_path):
    model(name).save_pretrained(tmp_path)
    save_model(load_model(tmp_path), tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert written["model_type"] == family
    assert (written["pad_token_id"], written["max_position_embeddings"]) == (1, 31)
    assert type(transformers.AutoModel.from_pretrained(tmp_path / "ours").config).model_type == family


def test_old_files_hold_positions_copies_and_a_pooler(tmp_path):
    for name in ("masked", "classes"):
        other = model(name)
        other.save_pretrained(tmp_path)
        path = tmp_path / "model.safetensors"
        weights = load_file(path)
        extra = {"roberta.embeddings.position_ids": torch.arange(31)[None]}
        if name == "masked":
            extra["lm_head.decoder.weight"] = weights["roberta.embeddings.word_embeddings.weight"].clone()
            extra["lm_head.decoder.bias"] = weights["lm_head.bias"].clone()
        extra["roberta.pooler.dense.weight"] = torch.ones(42, 42)
        extra["roberta.pooler.dense.bias"] = torch.ones(42)
        save_file({**weights, **extra}, path)
        ours = load_model(tmp_path)
        assert difference(ours, other, "right") <= BOUND
        assert (ours.pooler is None) == (name == "classes")


def test_entries_that_would_move_the_positions_are_refused(tmp_path):
    model("masked").save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    with pytest.raises(ValueError, match=r"entries of config\.json would change max_length, position"):
        save_model(ours, tmp_path / "ours", pad_token_id=3)
    assert not (tmp_path / "ours").exists()
    save_model(ours, tmp_path / "ours", pad_token_id=1, eos_token_id=2)


@pytest.mark.parametrize("wrong", [{"pad_token_id": -1}, {"max_position_embeddings": 2}])
def test_positions_that_cannot_be_are_refused(wrong, tmp_path):
    model("masked").save_pretrained(tmp_path)
    edit_config(tmp_path, **wrong)
    with pytest.raises(InputError, match="max_position_embeddings is"):
        load_model(tmp_path)
