"""BERT: our answers are those of transformers, in both directions."""

import re

import pytest
import torch
from kit import (
    BOUND,
    C,
    V,
    check_mutation,
    check_reads,
    check_writes,
    difference,
    edit_config,
    inputs,
    theirs,
)
from safetensors.torch import load_file, save_file

from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.models.heads import Pooler

SIZES = {
    "vocab_size": V, "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 3,
    "max_position_embeddings": 29, "num_labels": C,
}  # fmt: skip
CASES = {
    "vectors": ("BertModel", {}),
    "masked": ("BertForMaskedLM", {}),
    "masked, ReLU, one segment": ("BertForMaskedLM", {"hidden_act": "relu", "type_vocab_size": 1}),
    "masked, untied": ("BertForMaskedLM", {"tie_word_embeddings": False}),
    "classes": ("BertForSequenceClassification", {"layer_norm_eps": 1e-2}),
    "tokens": ("BertForTokenClassification", {"classifier_dropout": 0.3}),
}
MUTATIONS = {
    "ε": ("masked", {"layer_norm_eps": 1e-2}),
    "activation": ("masked", {"hidden_act": "gelu_new"}),
    "another activation": ("classes", {"hidden_act": "relu"}),
}
SIDES = ("none", "right")  # their learned positions count places, ours tokens: padding on the left differs there


def model(name):
    kind, changes = CASES[name]
    return theirs(kind, {**SIZES, **changes}, std=0.7 if name == "tokens" else 0.3)


def edit_names(directory, change, extra=None):
    """Rename the stored weights, and store more."""
    path = directory / "model.safetensors"
    save_file({**{change(name): tensor for name, tensor in load_file(path).items()}, **(extra or {})}, path)


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    check_reads(model(name), tmp_path, SIDES)


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    check_writes(model(name), tmp_path, SIDES)


@torch.no_grad()
def test_the_pooled_vector_and_segments(tmp_path):
    other = model("vectors")
    ours = check_reads(other, tmp_path, ("none",))
    ids, mask = inputs("right")
    segments = (torch.arange(ids.shape[1]) > 5).long().expand_as(ids)
    answer = other(input_ids=ids, attention_mask=mask.long(), token_type_ids=segments)
    assert (ours(ids, mask, segments) - answer.last_hidden_state)[mask].abs().max() <= BOUND
    assert (ours.pooled(ids, mask, segments) - answer.pooler_output).abs().max() <= BOUND
    assert (ours(ids, mask) - answer.last_hidden_state)[mask].abs().max() > BOUND


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    name, wrong = MUTATIONS[mutation]
    check_mutation(model(name), tmp_path, **wrong)


def pre_norm(ours):
    for block in ours.stack.blocks:
        block.attention.pre = block.feedforward.pre = True


def no_segments(ours):
    ours.stack.embedding.segments = None


def next_positions(ours):
    ours.stack.embedding.learned.table.weight.data = ours.stack.embedding.learned.table.weight.data.roll(-1, 0)


def queries_and_keys_swapped(ours):
    for block in ours.stack.blocks:
        weight = block.attention.layer.qkv.weight  # (3 H K, D)
        weight.data = weight.data.unflatten(0, (3, -1))[[1, 0, 2]].flatten(0, 1)


def no_embedding_norm(ours):
    ours.stack.embedding.norm = torch.nn.Identity()


@pytest.mark.parametrize("mutate", [pre_norm, no_segments, next_positions, queries_and_keys_swapped, no_embedding_norm])
def test_a_wrong_wiring_shows(mutate, tmp_path):
    other = model("masked")
    ours = check_reads(other, tmp_path, ("none",))
    mutate(ours)
    assert difference(ours, other) > BOUND


@pytest.mark.parametrize("name", ["vectors", "masked", "classes"])
def test_old_names_read_the_same(name, tmp_path):
    """γ and β, positions that are stored, and the prefix there or not whatever the class."""
    other = model(name)
    other.save_pretrained(tmp_path)

    def old(name):
        name = re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name)
        name = re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)
        other_form = "bert." + name if not name.startswith(("bert.", "cls.", "classifier.")) else name
        return other_form if other_form != name else name.removeprefix("bert.")

    edit_names(tmp_path, old, {"embeddings.position_ids": torch.arange(29)[None]})
    assert difference(load_model(tmp_path), other, "right") <= BOUND


@torch.no_grad()
def test_a_file_of_pretraining_gives_masked_tokens_and_the_pooler(tmp_path):
    """As the first BERT files are: the next-sentence head beside, and copies of the matrix and the bias."""
    other = theirs("BertForPreTraining", SIZES)
    other.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    copies = {
        "cls.predictions.decoder.weight": weights["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": weights["cls.predictions.bias"],
    }
    edit_names(tmp_path, str, {name: tensor.clone() for name, tensor in copies.items()})
    ids, mask = inputs("right")
    expected = other(input_ids=ids, attention_mask=mask.long())
    for kind in ("BertForPreTraining", "BertForMaskedLM"):
        edit_config(tmp_path, architectures=[kind])
        ours = load_model(tmp_path)
        assert (ours(ids, mask) - expected.prediction_logits)[mask].abs().max() <= BOUND
        states = other.bert(input_ids=ids, attention_mask=mask.long())
        assert (ours.pooled(ids, mask) - states.pooler_output).abs().max() <= BOUND
    save_model(ours, tmp_path / "again")
    written = load_file(tmp_path / "again" / "model.safetensors")
    assert not any("pooler" in name for name in written)  # the class of masked tokens has none


def test_vectors_without_a_pooler(tmp_path):
    other = model("vectors")
    other.pooler = None
    ours = check_reads(other, tmp_path, SIDES)
    assert ours.pooler is None
    save_model(ours, tmp_path)
    assert load_model(tmp_path).pooler is None
    edit_names(tmp_path, lambda name: name.replace("pooler.dense.bias", "puller.dense.bias"))
    with pytest.raises(InputError, match=r"missing bert\.pooler\.dense\.bias"):
        load_model(tmp_path)


def test_a_classifier_without_its_pooler_is_not_complete(tmp_path):
    model("classes").save_pretrained(tmp_path)
    edit_names(tmp_path, lambda name: name.replace("pooler", "puller"))
    with pytest.raises(InputError, match=r"missing bert\.pooler\.dense\.weight"):
        load_model(tmp_path)


def test_untied_both_names_of_the_bias_are_stored_and_the_second_counts(tmp_path):
    other = model("masked, untied")
    ours = check_reads(other, tmp_path, ("none",))
    assert torch.equal(ours.head.token.matrix.bias, other.cls.predictions.decoder.bias)
    assert not torch.equal(ours.head.token.matrix.bias, other.cls.predictions.bias)


def test_the_classifiers_dropout_is_the_models_where_it_is_null(tmp_path):
    model("classes").save_pretrained(tmp_path)
    edit_config(tmp_path, classifier_dropout=None, hidden_dropout_prob=0.3)
    assert load_model(tmp_path).head.dropout.p == 0.3
    edit_config(tmp_path, classifier_dropout=0.7)
    assert load_model(tmp_path).head.dropout.p == 0.7


@pytest.mark.parametrize(
    "wrong", [{"is_decoder": True}, {"position_embedding_type": "relative_key"}, {"type_vocab_size": 0}]
)
def test_what_is_not_supported_is_refused(wrong, tmp_path):
    model("vectors").save_pretrained(tmp_path)
    edit_config(tmp_path, **wrong)
    with pytest.raises(InputError, match=next(iter(wrong))):
        load_model(tmp_path)


def test_a_head_of_another_shape_is_not_written(tmp_path):
    model("vectors").save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    ours.head = Pooler(ours.config)
    with pytest.raises(ValueError, match="bert: it has no Pooler"):
        save_model(ours, tmp_path / "new")
