"""BERT: our answers are those of transformers, in both directions."""

import pytest
import torch
from kit import BOUND, C, V, check_mutation, check_reads, check_writes, inputs, theirs

SIZES = {
    "vocab_size": V, "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 3,
    "max_position_embeddings": 29, "num_labels": C,
}  # fmt: skip
CASES = {
    "vectors": ("BertModel", {}),
    "masked": ("BertForMaskedLM", {}),
    "masked, ReLU, one segment": ("BertForMaskedLM", {"hidden_act": "relu", "type_vocab_size": 1}),
    "classes": ("BertForSequenceClassification", {"layer_norm_eps": 1e-2}),
}
MUTATIONS = {
    "ε": ("masked", {"layer_norm_eps": 1e-2}),
    "activation": ("masked", {"hidden_act": "gelu_new"}),
}


def model(name):
    kind, changes = CASES[name]
    return theirs(kind, {**SIZES, **changes})


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    # their learned positions count places, ours tokens, so with padding on the left only ours is independent of it
    check_reads(model(name), tmp_path, ("none", "right"))


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    check_writes(model(name), tmp_path, ("none", "right"))


@torch.no_grad()
def test_the_pooled_vector_and_segments(tmp_path):
    other = model("vectors")
    ours = check_reads(other, tmp_path, ("none",))
    ids, mask = inputs("right")
    segments = (torch.arange(ids.shape[1]) > 5).long().expand_as(ids)
    answer = other(input_ids=ids, attention_mask=mask.long(), token_type_ids=segments)
    assert (ours(ids, mask, segments) - answer.last_hidden_state)[mask].abs().max() <= BOUND
    assert (ours.pooled(ids, mask, segments) - answer.pooler_output).abs().max() <= BOUND


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    name, wrong = MUTATIONS[mutation]
    check_mutation(model(name), tmp_path, **wrong)
