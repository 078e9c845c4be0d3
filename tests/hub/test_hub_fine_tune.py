"""A published encoder of any class becomes a classifier or a masked-token model of its family, and is saved as one."""

import json

import pytest
import torch
import transformers
from hub_kit import edit, read_json
from safetensors.torch import load_file

from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.hub.fine_tune import for_classification, for_masked_tokens, for_token_classification
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, MaskedTokenHead, PoolingHead
from headway.models.transformer import Decoder, Encoder
from headway.tasks.labels import labels_of

B, T, V, C = 3, 13, 31, 7
SMALL = {
    "vocab_size": V, "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 2, "num_attention_heads": 3,
    "max_position_embeddings": 29,
}  # fmt: skip
DISTIL = {
    "vocab_size": V, "dim": 42, "hidden_dim": 17, "n_layers": 2, "n_heads": 3, "max_position_embeddings": 29,
}  # fmt: skip
MODERN = {**SMALL, **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))}
FAMILIES = {"Bert": SMALL, "Roberta": SMALL, "XLMRoberta": SMALL, "DistilBert": DISTIL, "ModernBert": MODERN}
CLASSES = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
TEXT = [(family, kind) for family in FAMILIES for kind in CLASSES]
VIT = {"hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 15,
       "patch_size": 5}  # fmt: skip


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Where a small redrawn model of that class was saved, and a fresh copy of it here."""
    where = {}

    def get(family, kind):
        if (family, kind) not in where:
            cls = getattr(transformers, family + kind)
            model = cls(cls.config_class(**{**FAMILIES.get(family, VIT), "num_labels": 5}))
            generator = torch.Generator().manual_seed(0)
            for parameter in model.parameters():
                parameter.data.normal_(0, 0.3, generator=generator)
            where[family, kind] = tmp_path_factory.mktemp(family)
            model.save_pretrained(where[family, kind])
        return load_model(where[family, kind])

    return get


def check_saved(model, cls, directory, given, name="input_ids"):
    """transformers loads it, every weight known there and none missing, and gives its answers; so does Headway."""
    save_model(model, directory)
    assert read_json(directory / "config.json")["architectures"] == [cls]
    back, report = getattr(transformers, cls).from_pretrained(directory, output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "mismatched_keys")), report
    assert all("pooler" in name for name in report["unexpected_keys"]), report
    found = model(given)
    assert (found - back.eval()(**{name: given}).logits).abs().max() <= 1e-4
    again = load_model(directory)
    assert torch.equal(again(given), found)
    return found, again


def ids():
    return torch.randint(3, V, (B, T), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
@pytest.mark.parametrize(("family", "kind"), TEXT)
@pytest.mark.parametrize("of", ["Sequence", "Token"])
def test_a_classifier_of_its_family(of, family, kind, published, tmp_path):
    before = published(family, kind)
    dense = getattr(before.head, "dense", None)
    make = for_classification if of == "Sequence" else for_token_classification
    model = make(before, C, dropout=0.1, seed=3)
    assert model.head.dropout.p == 0.1 and model.pooler is None and not model.head.training
    if (of, family) == ("Token", "ModernBert") and kind in ("ForMaskedLM", "ForTokenClassification"):
        assert model.head.dense is dense
    found, again = check_saved(model, f"{family}For{of}Classification", tmp_path, ids())
    assert found.shape == ((B, C) if of == "Sequence" else (B, T, C))
    assert again.head.dropout.p == 0.1  # DistilBERT's is that of the model, 0.1 too


@torch.no_grad()
@pytest.mark.parametrize(("family", "kind"), TEXT)
def test_a_masked_token_model_of_its_family(family, kind, published, tmp_path):
    model = for_masked_tokens(published(family, kind), seed=3)
    check_saved(model, f"{family}ForMaskedLM", tmp_path, ids())
    assert model.head.token.matrix.weight is model.stack.embedding.tokens.weight


@torch.no_grad()
def test_an_image_classifier(published, tmp_path):
    for kind in ("Model", "ForImageClassification"):
        model = for_classification(published("ViT", kind), C)
        check_saved(model, "ViTForImageClassification", tmp_path, torch.randn(B, 3, 15, 15), "pixel_values")
    with pytest.raises(ValueError, match="vit has no masked-token head"):
        for_masked_tokens(published("ViT", "Model"))


REUSED = {
    ("Bert", "Model"): "bert.pooler.dense",
    ("Bert", "ForPreTraining"): "bert.pooler.dense",
    ("Bert", "ForSequenceClassification"): "bert.pooler.dense",
    ("ModernBert", "ForMaskedLM"): "head.dense",
    ("ModernBert", "ForSequenceClassification"): "head.dense",
    ("Roberta", "ForSequenceClassification"): "classifier.dense",
    ("DistilBert", "ForSequenceClassification"): "pre_classifier",
}


@pytest.mark.parametrize(("family", "kind"), [*TEXT, ("Bert", "ForPreTraining")])
def test_what_of_a_checkpoint_a_classifier_begins_with(family, kind, published, tmp_path):
    """The stack always; a dense layer where the published classifier has it from there; nothing else."""
    before = published(family, kind)
    save_model(before, tmp_path / "before")
    model = for_classification(published(family, kind), C)
    save_model(model, tmp_path / "after")
    one, other = (load_file(tmp_path / when / "model.safetensors") for when in ("before", "after"))
    if kind == "ForPreTraining":  # the class of what is saved, BertForMaskedLM, has no pooler
        one |= {f"bert.pooler.{name}": p.detach() for name, p in before.pooler.named_parameters()}
    prefix = {"Bert": "bert.", "ModernBert": "model.", "DistilBert": "distilbert."}.get(family, "roberta.")
    one = {name if name in other else prefix + name: tensor for name, tensor in one.items()}
    same = {name for name in other if name in one and torch.equal(one[name], other[name])}
    reused = REUSED.get((family, kind), REUSED.get(("Roberta", kind)) if family == "XLMRoberta" else None)
    fresh = {name for name in other if name not in same}
    assert all(name in same for name in other if name.startswith(prefix) and "pooler" not in name)
    assert (reused is None) or (f"{reused}.weight" in same)
    assert any(name.startswith("classifier") for name in fresh)
    dense = {"head.dense.weight", "classifier.dense.weight", "pre_classifier.weight", "bert.pooler.dense.weight"}
    assert bool(fresh & dense) == (reused is None)


def test_fresh_weights_are_normal_and_their_own(published):
    """0.02 wide, zero biases, the same from the same seed whatever was drawn before, and no trace in torch's state."""
    model = published("Roberta", "Model")
    state = torch.get_rng_state()
    one = for_classification(model, C, seed=3).head
    assert torch.equal(torch.get_rng_state(), state)
    two, three = (for_classification(published("Roberta", "Model"), C, seed=seed).head for seed in (3, 4))
    assert torch.equal(one.dense.weight, two.dense.weight) and torch.equal(one.out.weight, two.out.weight)
    assert not torch.equal(one.dense.weight, three.dense.weight)
    assert one.dense.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert one.dense.weight.mean().item() == pytest.approx(0, abs=0.002)
    assert not one.dense.bias.any() and not one.out.bias.any()


def test_a_head_that_is_there_is_kept_and_there_and_back_the_pooler(published):
    model = published("Bert", "ForMaskedLM")
    head = model.head
    assert for_masked_tokens(model).head is head
    model = published("Bert", "Model")
    pooler = model.pooler.dense
    assert for_classification(for_masked_tokens(model), C).head.dense is pooler


def test_a_new_masked_token_head_is_tied_whatever_the_checkpoint_says(published, tmp_path):
    model = published("Bert", "Model")
    model.config = model.stack.config = model.config.but(tied=False)
    table = model.stack.embedding.tokens.weight.clone()
    for_masked_tokens(model)
    assert model.head.token.matrix.weight is model.stack.embedding.tokens.weight
    assert model.config.tied and torch.equal(model.stack.embedding.tokens.weight, table)
    check_saved(model, "BertForMaskedLM", tmp_path, ids())


def test_names_of_classes_are_forgotten_with_the_classes(published, tmp_path):
    model = published("Bert", "ForSequenceClassification")
    save_model(model, tmp_path, id2label={str(i): word for i, word in enumerate("abcde")}, problem_type="regression")
    save_model(for_classification(load_model(tmp_path), 5), tmp_path)
    written = read_json(tmp_path / "config.json")
    assert written["id2label"]["0"] == "LABEL_0" and "problem_type" not in written


def test_a_model_of_one_number_is_read_and_written_and_is_no_classifier_of_labels(published, tmp_path):
    model = for_classification(published("Bert", "Model"), 1)
    save_model(model, tmp_path, problem_type="regression")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    ids = torch.randint(5, 23, (2, 7))
    with torch.no_grad():
        assert torch.allclose(load_model(tmp_path)(ids), theirs(ids).logits, atol=1e-5)
    assert theirs.config.problem_type == "regression" and theirs.config.num_labels == 1
    edit(tmp_path / "config.json", problem_type=None)
    with pytest.raises(InputError, match="a number and no label"):
        labels_of(tmp_path, 1)


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"id2label": {"0": "a", "1": None}}, "id2label has no name for class 1"),
        ({"id2label": {"0": " ", "1": "b"}}, "id2label has no name for class 0"),
        ({"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 1, "b": 0}}, "id2label and label2id contradict"),
    ],
)
def test_names_of_classes_that_are_damaged_are_refused(entries, says, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(entries))
    with pytest.raises(InputError, match=says):
        labels_of(tmp_path, 2)


def test_the_head_goes_where_the_model_is(published):
    head = for_classification(published("DistilBert", "Model").to(torch.bfloat16).train(), C).head
    assert head.out.weight.dtype == torch.bfloat16 and head.training


@pytest.mark.parametrize(
    ("change", "head"),
    [(lambda model: for_classification(model, C), ClassificationHead), (for_masked_tokens, MaskedTokenHead)],
)
def test_any_head_may_have_been_there(change, head, published):
    model = published("ModernBert", "Model")
    model.head = PoolingHead()
    assert isinstance(change(model).head, head)


def test_what_no_family_expresses_is_refused_and_left_alone():
    config = TransformerConfig(V, d_model=20, n_heads=2, positions="alibi")
    model = Encoder(config, PoolingHead())
    for change in (lambda: for_classification(model, C), lambda: for_masked_tokens(model)):
        with pytest.raises(ValueError, match="no Hugging Face family can express this model"):
            change()
        assert isinstance(model.head, PoolingHead)
    with pytest.raises(ValueError, match="no Hugging Face family can express this model"):
        for_classification(Decoder(config), C)
    with pytest.raises(ValueError, match="a Decoder is not an encoder"):
        for_masked_tokens(Decoder(config))


def test_no_output_is_refused(published):
    model = published("Bert", "Model")
    with pytest.raises(ValueError, match="0 classes"):
        for_classification(model, 0)
    assert model.head is None and model.pooler is not None
