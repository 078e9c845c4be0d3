"""DistilBERT: our answers are those of transformers, in both directions."""

import pytest
import torch
from kit import BOUND, C, V, check_mutation, check_reads, check_writes, difference, edit_config, theirs
from safetensors.torch import load_file, save_file

from headway.hub.directory import load_model

SIZES = {
    "vocab_size": V, "dim": 42, "hidden_dim": 17, "n_layers": 3, "n_heads": 3, "max_position_embeddings": 29,
    "num_labels": C,
}  # fmt: skip
CASES = {
    "vectors": ("DistilBertModel", {}),
    "masked": ("DistilBertForMaskedLM", {}),
    "masked, untied": ("DistilBertForMaskedLM", {"tie_word_embeddings": False}),
    "masked, ReLU": ("DistilBertForMaskedLM", {"activation": "relu"}),
    "classes": ("DistilBertForSequenceClassification", {}),
    "tokens": ("DistilBertForTokenClassification", {}),
    "sinusoids in a table": ("DistilBertForMaskedLM", {"sinusoidal_pos_embds": True}),
}
SIDES = ("none", "right")  # their learned positions count places, ours tokens: padding on the left differs there


def model(name):
    kind, changes = CASES[name]
    return theirs(kind, {**SIZES, **changes}, std=0.5 if "vectors" in name or "tokens" in name else 0.3)


@pytest.mark.parametrize("name", CASES)
def test_their_model_here(name, tmp_path):
    check_reads(model(name), tmp_path, SIDES)


@pytest.mark.parametrize("name", CASES)
def test_our_model_there(name, tmp_path):
    check_writes(model(name), tmp_path, SIDES)


def test_a_wrong_activation_in_the_configuration_shows(tmp_path):
    check_mutation(model("masked"), tmp_path, activation="relu")


def wrong_eps(ours):
    for norm in (module for module in ours.modules() if hasattr(module, "eps")):
        norm.eps = 1e-3


def no_embedding_norm(ours):
    ours.stack.embedding.norm = torch.nn.Identity()


def tanh_for_relu(ours):
    ours.head.activation = "tanh"


def next_positions(ours):
    ours.stack.embedding.learned.table.weight.data = ours.stack.embedding.learned.table.weight.data.roll(-1, 0)


def norms_swapped(ours):
    for block in ours.stack.blocks:
        block.attention.norm, block.feedforward.norm = block.feedforward.norm, block.attention.norm


@pytest.mark.parametrize("mutate", [wrong_eps, no_embedding_norm, tanh_for_relu, next_positions, norms_swapped])
def test_a_wrong_wiring_shows(mutate, tmp_path):
    other = model("classes")
    ours = check_reads(other, tmp_path, ("none",))
    mutate(ours)
    assert difference(ours, other) > BOUND


@pytest.mark.parametrize("name", ["vectors", "masked", "classes"])
def test_a_missing_or_present_prefix_and_stored_positions_read_the_same(name, tmp_path):
    other = model(name)
    other.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = {k.removeprefix("distilbert."): tensor for k, tensor in load_file(path).items()}
    if name == "vectors":
        weights = {"distilbert." + k: tensor for k, tensor in weights.items()}
    save_file({**weights, "distilbert.embeddings.position_ids": torch.arange(29)[None]}, path)
    assert difference(load_model(tmp_path), other, "right") <= BOUND


def test_the_classifiers_dropout(tmp_path):
    model("classes").save_pretrained(tmp_path)
    assert load_model(tmp_path).head.dropout.p == 0.2
    edit_config(tmp_path, seq_classif_dropout=0.7)
    assert load_model(tmp_path).head.dropout.p == 0.7
