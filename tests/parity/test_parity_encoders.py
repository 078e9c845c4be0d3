"""Encoders of transformers: what only one family has."""

import json
import re

import pytest
import torch
import transformers
from families import ENCODER, NOT_LEFT, model
from kit import BOUND, check_reads, difference, edit_config, inputs, theirs
from safetensors.torch import load_file, save_file

from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.models.heads import Pooler


def edit_names(directory, change, extra=None):
    """Rename the stored weights, and store more."""
    path = directory / "model.safetensors"
    save_file({**{change(name): tensor for name, tensor in load_file(path).items()}, **(extra or {})}, path)


@torch.no_grad()
def test_the_pooled_vector_and_segments(tmp_path):
    other = model("bert", "vectors")
    ours = check_reads(other, tmp_path, ("none",))
    ids, mask = inputs("right")
    segments = (torch.arange(ids.shape[1]) > 5).long().expand_as(ids)
    answer = other(input_ids=ids, attention_mask=mask.long(), token_type_ids=segments)
    assert (ours(ids, mask, segments) - answer.last_hidden_state)[mask].abs().max() <= BOUND
    assert (ours.pooled(ids, mask, segments) - answer.pooler_output).abs().max() <= BOUND
    assert (ours(ids, mask) - answer.last_hidden_state)[mask].abs().max() > BOUND


@pytest.mark.parametrize("name", ["vectors", "masked", "classes"])
def test_old_names_read_the_same(name, tmp_path):
    """γ and β, positions that are stored, and the prefix there or not whatever the class."""
    other = model("bert", name)
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
    other = theirs("BertForPreTraining", ENCODER)
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
    other = model("bert", "vectors")
    other.pooler = None
    ours = check_reads(other, tmp_path, NOT_LEFT)
    assert ours.pooler is None
    save_model(ours, tmp_path)
    assert load_model(tmp_path).pooler is None
    edit_names(tmp_path, lambda name: name.replace("pooler.dense.bias", "puller.dense.bias"))
    with pytest.raises(InputError, match=r"missing bert\.pooler\.dense\.bias"):
        load_model(tmp_path)


def test_a_classifier_without_its_pooler_is_not_complete(tmp_path):
    model("bert", "classes").save_pretrained(tmp_path)
    edit_names(tmp_path, lambda name: name.replace("pooler", "puller"))
    with pytest.raises(InputError, match=r"missing bert\.pooler\.dense\.weight"):
        load_model(tmp_path)


def test_untied_both_names_of_the_bias_are_stored_and_the_second_counts(tmp_path):
    other = model("bert", "masked, untied")
    ours = check_reads(other, tmp_path, ("none",))
    assert torch.equal(ours.head.token.matrix.bias, other.cls.predictions.decoder.bias)
    assert not torch.equal(ours.head.token.matrix.bias, other.cls.predictions.bias)


def test_the_classifiers_dropout_is_the_models_where_it_is_null(tmp_path):
    model("bert", "classes").save_pretrained(tmp_path)
    edit_config(tmp_path, classifier_dropout=None, hidden_dropout_prob=0.3)
    assert load_model(tmp_path).head.dropout.p == 0.3
    edit_config(tmp_path, classifier_dropout=0.7)
    assert load_model(tmp_path).head.dropout.p == 0.7


def test_a_head_of_another_shape_is_not_written(tmp_path):
    model("bert", "vectors").save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    ours.head = Pooler(ours.config)
    with pytest.raises(ValueError, match="bert: it has no Pooler"):
        save_model(ours, tmp_path / "new")


@pytest.mark.parametrize("name", ["vectors", "masked", "classes"])
def test_a_missing_or_present_prefix_and_stored_positions_read_the_same(name, tmp_path):
    other = model("distilbert", name)
    other.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = {k.removeprefix("distilbert."): tensor for k, tensor in load_file(path).items()}
    if name == "vectors":
        weights = {"distilbert." + k: tensor for k, tensor in weights.items()}
    save_file({**weights, "distilbert.embeddings.position_ids": torch.arange(29)[None]}, path)
    assert difference(load_model(tmp_path), other, "right") <= BOUND


def test_the_classifiers_dropout(tmp_path):
    model("distilbert", "classes").save_pretrained(tmp_path)
    assert load_model(tmp_path).head.dropout.p == 0.2
    edit_config(tmp_path, seq_classif_dropout=0.7)
    assert load_model(tmp_path).head.dropout.p == 0.7


@torch.no_grad()
def test_the_pooled_vector(tmp_path):
    other = model("roberta", "vectors")
    ours, (ids, mask) = check_reads(other, tmp_path, ("none",)), inputs("right", pad=1)
    answer = other(input_ids=ids, attention_mask=mask.long())
    assert (ours.pooled(ids, mask) - answer.pooler_output).abs().max() <= BOUND


@torch.no_grad()
def test_the_masked_token_head_keeps_gelu_whatever_the_blocks_have(tmp_path):
    other = model("roberta", "masked, untied, ReLU")
    ours = check_reads(other, tmp_path, ("none",))
    assert ours.head.activation == "gelu" and ours.config.activation == "relu"
    ours.head.activation = "relu"
    assert difference(ours, other) > BOUND


@torch.no_grad()
def test_the_longest_text_uses_the_last_row_and_one_more_token_is_refused(tmp_path):
    """31 rows: two before the first position, 29 for tokens."""
    other = model("roberta", "vectors")
    ours = check_reads(other, tmp_path, ("none",))
    assert ours.config.max_length == 29
    ids, _ = inputs(length=29)
    assert (ours(ids) - other(input_ids=ids).last_hidden_state).abs().max() <= BOUND
    with pytest.raises(ValueError, match="30 tokens"):
        ours(inputs(length=30)[0])


@pytest.mark.parametrize(("name", "family"), [("masked", "roberta"), ("XLM masked", "xlm-roberta")])
def test_each_is_written_under_the_name_it_came_with(name, family, tmp_path):
    model("roberta", name).save_pretrained(tmp_path)
    save_model(load_model(tmp_path), tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert written["model_type"] == family
    assert (written["pad_token_id"], written["max_position_embeddings"]) == (1, 31)
    assert type(transformers.AutoModel.from_pretrained(tmp_path / "ours").config).model_type == family


def test_old_files_hold_positions_copies_and_a_pooler(tmp_path):
    for name in ("masked", "classes"):
        other = model("roberta", name)
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
    model("roberta", "masked").save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    with pytest.raises(ValueError, match=r"entries of config\.json would change max_length, position"):
        save_model(ours, tmp_path / "ours", pad_token_id=3)
    assert not (tmp_path / "ours").exists()
    save_model(ours, tmp_path / "ours", pad_token_id=1, eos_token_id=2)
